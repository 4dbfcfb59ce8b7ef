// Parses 64-bit integers exactly, in JSON and in the decimal digits of paths and queries.
import { randomUUID } from 'node:crypto';

/** The ranges of integers by their formats, and of those without one, as doubles. */
export const integerRanges = {
  double: { min: BigInt(Number.MIN_SAFE_INTEGER), max: BigInt(Number.MAX_SAFE_INTEGER) },
  int64: { min: -(2n ** 63n), max: 2n ** 63n - 1n },
  uint64: { min: 0n, max: 2n ** 64n - 1n },
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
 * @throws SyntaxError if it is not JSON (RFC 8259).
 * @example
 * parseExactJson('{"id":9007199254740993}'); // { id: 9007199254740993n }
 */
export function parseExactJson(text: string): unknown {
  const rounded: unknown = JSON.parse(text);
  return mayRound.test(text) ? readExactly(text, rounded) : rounded;
}

/** Begins the texts that stand for numbers while they are parsed; no text that arrives can contain it. */
const mark = randomUUID();
/** A quote that begins a string, or a number. */
const piece = /"|-?\d[\d.eE+-]*/g;

/** Reads the numbers of a well-formed text again, if JSON.parse has rounded one. */
function readExactly(text: string, rounded: unknown): unknown {
  let marked = '';
  let end = 0;
  piece.lastIndex = 0;
  for (let match = piece.exec(text); match !== null; match = piece.exec(text)) {
    const [literal] = match;
    if (literal === '"') piece.lastIndex = endOfString(text, match.index);
    else if (typeof readNumber(literal) !== 'number') {
      marked += `${text.slice(end, match.index)}"${mark}${literal}"`;
      end = piece.lastIndex;
    }
  }
  if (marked === '') return rounded;
  const root = { value: JSON.parse(marked + text.slice(end)) as unknown };
  // Not by recursion or a reviver, to support the same depth of nesting as JSON.parse.
  const owners: object[] = [root];
  for (const owner of owners)
    for (const [key, value] of Object.entries(owner) as [string, unknown][]) {
      if (typeof value === 'object' && value !== null) owners.push(value);
      else if (typeof value === 'string' && value.startsWith(mark))
        setOwn(owner, key, readNumber(value.slice(mark.length)));
    }
  return root.value;
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
  const [mantissa = '', exponent = '0'] = literal.split(/e/i);
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
  const match = /[1-9](?:\d*[1-9])?/.exec(whole + fraction);
  if (match === null) return rounded; // zero in any notation

  // The value is these digits times 10^scale.
  const [digits] = match;
  const scale = Number(exponent) + whole.length - match.index - digits.length;
  if (scale >= 0 && digits.length + scale <= 20) {
    const exact = BigInt(`${literal.startsWith('-') ? '-' : ''}${digits}${'0'.repeat(scale)}`);
    if (Number.isSafeInteger(Number(exact))) return Number(exact);
    if (exact >= integerRanges.int64.min && exact <= integerRanges.uint64.max) return exact;
  }
  // A fraction that a double rounds to an integer is another number. A double has its shortest digits, and every one of 15.
  const isSame = digits.length <= 15 || rounded.toExponential().replace(/e.*|[-.]/g, '') === digits;
  const isKept = isSame && Number.isInteger(rounded) === scale >= 0;
  return isKept || !Number.isFinite(rounded) ? rounded : Symbol(literal);
}

/**
 * Parses an integer of a path or a query, in canonical decimal digits.
 * @returns undefined when the text has any other form.
 */
export function parseDecimal(text: string): bigint | undefined {
  // No `+`, no leading zeros, no `-0`, and at most the digits of uint64.
  return /^(?:0|-?[1-9]\d{0,19})$/.test(text) ? BigInt(text) : undefined;
}
