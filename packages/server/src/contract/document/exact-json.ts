// Parses 64-bit integers exactly, in JSON and in the decimal digits of paths and queries.

/** The ranges of integers of the format int64, and of those without one, as doubles. */
export const integerRanges = {
  double: { min: BigInt(Number.MIN_SAFE_INTEGER), max: BigInt(Number.MAX_SAFE_INTEGER) },
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
 * keeps becomes a symbol (see `isInexact`).
 * @throws SyntaxError that says where the fault is.
 * @example
 * parseExactJson('{"id":9007199254740993}'); // { id: 9007199254740993n }
 */
export function parseExactJson(text: string): unknown {
  if (mayRound.test(text)) return readJson(text);
  try {
    return JSON.parse(text);
  } catch {
    // The message of JSON.parse has no place in some releases of Node.js.
    return readJson(text);
  }
}

/** What may follow in a text. */
type Expected = 'value' | 'name' | 'colon' | 'end';

/** An array or object that is being read, the property that is read next, and what ends it. */
interface Frame {
  readonly into: unknown[] | object;
  readonly closer: string | undefined;
  name: string;
}

// Blanks, and what follows: a string up to its quote, a number, a literal or punctuation.
const piece = /[ \t\n\r]*("|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[[\]{}:,])?/y;
const closers: Readonly<Record<string, string>> = { '[': ']', '{': '}' };

/** Reads JSON (RFC 8259). An explicit stack supports the same depth of nesting as JSON.parse. */
function readJson(text: string): unknown {
  const root: unknown[] = [];
  const stack: Frame[] = [{ into: root, closer: undefined, name: '' }];
  let expected: Expected = 'value';
  /** Whether nothing is in the innermost array or object yet, so that it may end. */
  let isEmpty = false;
  piece.lastIndex = 0;
  for (;;) {
    const [, token = ''] = piece.exec(text)!;
    const start = piece.lastIndex - token.length;
    const frame = stack.at(-1)!;
    const closer = closers[token];
    if (token === '' && start === text.length && expected === 'end' && stack.length === 1) return root[0];
    if (token !== '' && token === frame.closer && (expected === 'end' || isEmpty)) {
      stack.pop();
      expected = 'end';
    } else if (expected === 'colon' && token === ':') expected = 'value';
    else if (expected === 'end' && token === ',' && stack.length > 1)
      expected = frame.closer === '}' ? 'name' : 'value';
    else if (expected === 'name' && token === '"') {
      frame.name = readScalar(text, token, start) as string;
      expected = 'colon';
    } else if (expected === 'value' && closer !== undefined) {
      const into = token === '[' ? [] : {};
      put(frame, into);
      stack.push({ into, closer, name: '' });
      expected = token === '[' ? 'value' : 'name';
    } else if (expected === 'value' && /^["\w-]/.test(token)) {
      put(frame, readScalar(text, token, start));
      expected = 'end';
    } else throw faultAt(text, start);
    isEmpty = closer !== undefined;
  }
}

function put({ into, name }: Frame, value: unknown): void {
  if (Array.isArray(into)) into.push(value);
  else setOwn(into, name, value);
}

/** Reads the scalar that begins with a token; the next piece is what follows it. */
function readScalar(text: string, token: string, start: number): unknown {
  if (token !== '"') return /^[-\d]/.test(token) ? readNumber(token) : JSON.parse(token);
  piece.lastIndex = endOfString(text, start);
  try {
    return JSON.parse(text.slice(start, piece.lastIndex));
  } catch {
    throw faultAt(text, start);
  }
}

/** The fault of a text at an offset; it names what is there if that is invisible. */
function faultAt(text: string, offset: number): SyntaxError {
  const lines = text.slice(0, offset).split('\n');
  const unseen =
    offset === text.length ? ', where it ends' : text[offset] === '\uFEFF' ? ', a byte order mark' : '';
  return new SyntaxError(`the fault is at line ${lines.length}, column ${lines.at(-1)!.length + 1}${unseen}`);
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
