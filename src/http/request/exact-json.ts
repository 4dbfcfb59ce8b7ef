// Integers that are exact to 64 bits: read from JSON texts, and from the decimal digits of paths and queries.

/** The ranges of the contract's integer formats; `double` is that of an integer without a format. */
export const integerRanges = {
  double: { min: BigInt(Number.MIN_SAFE_INTEGER), max: BigInt(Number.MAX_SAFE_INTEGER) },
  int32: { min: -(2n ** 31n), max: 2n ** 31n - 1n },
  int64: { min: -(2n ** 63n), max: 2n ** 63n - 1n },
} as const;

/**
 * A number that a double may not hold shows by 16 digits in a row, or by a fraction or an exponent. (Below 16 digits
 * an integer is under 2^53, and every integer up to there is a double.)
 */
const mayRound = /\d{16}|\d[.eE]/;

/**
 * Reads a JSON text like JSON.parse, but no integer of it is ever rounded: one that is no safe integer, and has at most
 * 19 digits (all that int64 can hold) comes as a bigint, however it is spelled (9007199254740993.0,
 * 9.007199254740993e15). A fraction that a double would round to an integer comes as a symbol (see `isInexact`), so
 * that nobody takes it for that integer.
 * All other texts and values are JSON.parse's own, which is also the one that reads texts without such numbers.
 *
 * @throws SyntaxError of JSON.parse.
 */
export function parseExactJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return mayRound.test(text) ? readAgain(text) : value;
}

/** Whether a value of parseExactJson is a fraction that a double would round to an integer. It describes itself. */
export function isInexact(value: unknown): value is symbol {
  return typeof value === 'symbol';
}

/** The double next to a value of parseExactJson that is none; undefined when that is beyond the range of doubles. */
export function toDouble(value: bigint | symbol): number | undefined {
  const double = Number(typeof value === 'symbol' ? value.description : value);
  return Number.isFinite(double) ? double : undefined;
}

// Everything but strings; white space, commas and colons are passed over.
const token = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[[\]{}]|true|false|null/y;
const between = /[\s,:]*/y;

/**
 * Reads a text that JSON.parse has accepted, so that its syntax needs no check. It keeps a stack of its own, because
 * JSON.parse takes any depth of nesting and this must not take less.
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
 * Where the string that opens at `start` ends: behind the first quote with an even number of backslashes before it; at
 * the end of the text when there is none.
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

/** Plain assignment, but for the one key that assignment would take for the prototype. */
function setOwn(target: object, key: string, value: unknown): void {
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

/** The value of a JSON number: see parseExactJson. Its cost is linear in its length, whatever the exponent. */
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
  if (start === end) return rounded; // zero, however it is spelled

  // The value is digits[start..end) times ten to the power of `scale`.
  const scale = Number(exponent) - fraction.length + (digits.length - end);
  if (scale < 0) return Number.isInteger(rounded) ? Symbol(literal) : rounded;
  if (end - start + scale > 19) return rounded; // beyond int64 in any case
  const exact = BigInt(sign + digits.slice(start, end) + '0'.repeat(scale));
  return BigInt(Number.MIN_SAFE_INTEGER) <= exact && exact <= BigInt(Number.MAX_SAFE_INTEGER)
    ? Number(exact)
    : exact;
}

// No sign but `-`, no leading zeros, no `-0`; never more digits than int64 has.
const canonicalDecimal = /^(?:0|-?[1-9]\d{0,18})$/;

/**
 * Reads an integer from canonical decimal digits, as paths and queries spell it.
 * @returns undefined when the text is anything else.
 */
export function parseDecimal(text: string): bigint | undefined {
  return canonicalDecimal.test(text) ? BigInt(text) : undefined;
}
