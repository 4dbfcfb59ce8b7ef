// Parses 64-bit integers exactly, in JSON and in the decimal digits of paths and queries.

/** The ranges of the contract's integer formats; `double` is the range of an integer without a format. */
export const integerRanges = {
  double: { min: BigInt(Number.MIN_SAFE_INTEGER), max: BigInt(Number.MAX_SAFE_INTEGER) },
  int32: { min: -(2n ** 31n), max: 2n ** 31n - 1n },
  int64: { min: -(2n ** 63n), max: 2n ** 63n - 1n },
} as const;

/**
 * Matches every text with a number that a double may round: one with 16 digits in a row, a fraction or an exponent.
 * (Any integer of at most 15 digits is below 2^53, and so a double represents it exactly.)
 */
const mayRound = /\d{16}|\d[.eE]/;

/**
 * Parses JSON like JSON.parse, but never rounds an integer that fits in 64 bits. If it is not a safe integer, it becomes
 * a bigint, in any notation (9007199254740993.0, 9.007199254740993e15). Any other number with more digits than a double
 * keeps becomes a symbol (see `isInexact`). The syntax and all other values are those of JSON.parse.
 * @throws SyntaxError from JSON.parse.
 * @example
 * parseExactJson('{"id":9007199254740993}'); // { id: 9007199254740993n }
 */
export function parseExactJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return mayRound.test(text) ? readAgain(text) : value;
}

const blanks = /[ \t\n\r]*/y;
const piece = /"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[[\]{}:,]/y;
// cspell:ignore bfnrt
// A character that a string must not contain, or a backslash that begins no escape.
// eslint-disable-next-line no-control-regex -- RFC 8259 section 7 forbids these characters in strings
const faultInString = /[\u0000-\u001f]|\\(?!["\\/bfnrt]|u[\da-fA-F]{4})/;

/**
 * Finds the first fault of a text that is not JSON (RFC 8259): its line and column, and what is there if that is
 * invisible, which is the end of the text or a byte order mark.
 */
export function faultPlace(text: string): string {
  const offset = faultOffset(text);
  const lines = text.slice(0, offset).split('\n');
  const unseen =
    offset === text.length ? ', where it ends' : text[offset] === '\uFEFF' ? ', a byte order mark' : '';
  return `line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}${unseen}`;
}

function faultOffset(text: string): number {
  const closers: string[] = [];
  let expected: 'value' | 'name' | 'colon' | 'end' = 'value';
  /** Whether nothing is in the innermost array or object yet, so that it may end. */
  let isEmpty = false;
  for (let at = 0; ;) {
    blanks.lastIndex = at;
    blanks.test(text);
    const start = blanks.lastIndex;
    piece.lastIndex = start;
    const [found] = piece.exec(text) ?? [''];
    const end = found === '"' ? endOfString(text, start) : start + found.length;
    const inside = found === '"' ? faultInString.exec(text.slice(start, end).replaceAll('\\\\', '  ')) : null;
    const closer = { '[': ']', '{': '}' }[found];
    if (found === closers.at(-1) && (expected === 'end' || isEmpty)) {
      closers.pop();
      expected = 'end';
    } else if (expected === 'value' && closer !== undefined) {
      closers.push(closer);
      expected = closer === '}' ? 'name' : 'value';
    } else if (expected === 'value' && /^[^\]}:,]/.test(found)) expected = 'end';
    else if (expected === 'name' && found === '"') expected = 'colon';
    else if (expected === 'colon' && found === ':') expected = 'value';
    else if (expected === 'end' && found === ',' && closers.length > 0)
      expected = closers.at(-1) === '}' ? 'name' : 'value';
    else return start;
    if (inside !== null) return start + inside.index;
    isEmpty = closer !== undefined;
    at = end;
  }
}

/** Whether a value of parseExactJson is a number with more digits than a double keeps; its description has them. */
export function isInexact(value: unknown): value is symbol {
  return typeof value === 'symbol';
}

/** The double nearest to a bigint or symbol of parseExactJson; undefined if it is outside the range of doubles. */
export function toDouble(value: bigint | symbol): number | undefined {
  const double = Number(typeof value === 'symbol' ? value.description : value);
  return Number.isFinite(double) ? double : undefined;
}

// Matches every token but strings; `between` skips white space, commas and colons.
const token = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[[\]{}]|true|false|null/y;
const between = /[\s,:]*/y;

/**
 * Parses a text that JSON.parse has accepted, without checking its syntax. An explicit stack supports the same depth of
 * nesting as JSON.parse.
 */
function readAgain(text: string): unknown {
  const root: unknown[] = [];
  const stack: { into: unknown[] | object; isArray: boolean; key: string | undefined }[] = [
    { into: root, isArray: true, key: undefined },
  ];
  let position = skip(text, 0);
  while (position < text.length) {
    const start = position;
    position = text[start] === '"' ? endOfString(text, start) : endOfToken(text, start);
    const literal = text.slice(start, position);
    position = skip(text, position);

    const top = stack[stack.length - 1]!;
    if (literal === ']' || literal === '}') {
      stack.pop();
      continue;
    }
    if (!top.isArray && top.key === undefined) {
      top.key = JSON.parse(literal) as string;
      continue;
    }
    const isArray = literal === '[';
    const opens = isArray || literal === '{';
    const value = opens ? (isArray ? [] : {}) : readScalar(literal);
    if (top.isArray) {
      (top.into as unknown[]).push(value);
    } else {
      setOwn(top.into, top.key!, value);
      top.key = undefined;
    }
    if (opens) stack.push({ into: value as object, isArray, key: undefined });
  }
  return root[0];
}

function skip(text: string, position: number): number {
  between.lastIndex = position;
  between.test(text);
  return between.lastIndex;
}

function endOfToken(text: string, start: number): number {
  token.lastIndex = start;
  token.test(text);
  return token.lastIndex;
}

/**
 * The position after the string that opens at `start`: after the first quote that follows an even number of
 * backslashes, or the end of the text if there is no such quote.
 */
export function endOfString(text: string, start: number): number {
  for (let quote = start; ;) {
    quote = text.indexOf('"', quote + 1);
    if (quote < 0) return text.length;
    let before = quote - 1;
    while (text[before] === '\\') before--;
    if ((quote - before) % 2 === 1) return quote + 1;
  }
}

/** Assigns a property, including `__proto__`, for which plain assignment would set the prototype. */
export function setOwn(target: object, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  } else {
    (target as Record<string, unknown>)[key] = value;
  }
}

function readScalar(literal: string): unknown {
  const first = literal.charCodeAt(0);
  return first === 0x2d || (first >= 0x30 && first <= 0x39) ? readNumber(literal) : JSON.parse(literal);
}

/** Parses a JSON number (see parseExactJson). The cost is linear in its length, whatever the exponent. */
function readNumber(literal: string): number | bigint | symbol {
  const rounded = Number(literal);
  if (literal.length < 16 && Number.isSafeInteger(rounded) && !/[.eE]/.test(literal)) return rounded;

  const [, sign, whole, fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(
    literal,
  ) as unknown as [string, string, string, string?, string?];
  const digits = whole + fraction;
  let start = 0;
  while (digits[start] === '0') start++;
  let end = digits.length;
  while (end > start && digits[end - 1] === '0') end--;
  if (start === end) return rounded; // zero in any notation

  // The value is digits[start..end) times 10^scale.
  const scale = Number(exponent) - fraction.length + (digits.length - end);
  const isFraction = scale < 0;
  if (!isFraction && end - start + scale <= 19) {
    const exact = BigInt(sign + digits.slice(start, end) + '0'.repeat(scale));
    if (Number.isSafeInteger(Number(exact))) return Number(exact);
    if (BigInt.asIntN(64, exact) === exact) return exact;
  }
  // A fraction that a double rounds to an integer is another number.
  const isKept = Number.isInteger(rounded) !== isFraction && hasDigits(rounded, digits.slice(start, end));
  return isKept || !Number.isFinite(rounded) ? rounded : Symbol(literal);
}

/** Whether a double has these digits, its shortest ones; every double has those of at most 15 from which it was read. */
function hasDigits(rounded: number, digits: string): boolean {
  return digits.length <= 15 || rounded.toExponential().replace(/e.*|[-.]/g, '') === digits;
}

// No `+`, no leading zeros, no `-0`, and at most the digits of int64.
const canonicalDecimal = /^(?:0|-?[1-9]\d{0,18})$/;

/**
 * Parses an integer of a path or a query, in canonical decimal digits.
 * @returns undefined when the text has any other form.
 */
export function parseDecimal(text: string): bigint | undefined {
  return canonicalDecimal.test(text) ? BigInt(text) : undefined;
}
