// Checks numbers exactly: Ajv does not accept a bigint as an integer, and accepts a rounded number.
import { integerRanges, isInexact, parseDecimal, toDouble } from '../../../contract/document/exact-json.js';
import { decimalNumber, isBig, typeOf } from '../../../contract/schema/json-types.js';
import type { Schema } from '../../../contract/schema/schema.js';
import { insteadOf } from './fault-messages.js';
import type { At, Verdict } from './verdicts.js';

/** A limit of a number; bigint and number compare exactly. */
interface Limit {
  readonly rule: string;
  readonly expected: unknown;
  readonly message: string;
  readonly holds: (value: number | bigint) => boolean;
}

/** Creates the check of the type of a value, and if it is a number, of its limits. An int64 becomes a bigint. */
export function createNumericCheck(schema: Schema) {
  const { type, number } = schema;
  const isInteger = type !== undefined && !type.includes('number');
  const range = isInteger ? integerRange(schema) : undefined;
  const name = range === undefined ? 'a number' : `an integer from ${range.min} to ${range.max}`;
  const hint = isInteger ? ', in canonical decimal digits' : ', in decimal digits';
  const limits = [...(range ? rangeLimits(range, name) : numberLimits(schema)), ...multipleLimit(schema)];
  /** The value that is compared; undefined if it is not of the type. */
  const read = (data: unknown): number | bigint | undefined => {
    if (isInexact(data)) return isInteger ? undefined : toDouble(data);
    if (typeof data === 'bigint') return data;
    const isKept = isInteger ? Number.isSafeInteger(data) : Number.isFinite(data);
    return isKept ? (data as number) : undefined;
  };
  /** Whether a text without quotes would be accepted. */
  const isQuoted = (text: unknown) => {
    const isNumber = typeof text === 'string' && decimalNumber.test(text);
    const value = isNumber ? (isInteger ? parseDecimal(text) : Number(text)) : undefined;
    return value !== undefined && limits.every(({ holds }) => holds(value));
  };
  return function (this: Verdict, data: unknown, at: At): void {
    const isNumber = typeof data === 'number' || typeof data === 'bigint' || isInexact(data);
    if (!isNumber && (type?.includes(typeOf(data)) ?? true)) return;
    const value = isNumber ? read(data) : undefined;
    const { source } = this.validation;
    const instead = source === 'text' ? hint : isNumber ? '' : insteadOf(data, source);
    if (value === undefined) {
      const bare = source === 'text' ? /^"([^"]*)"$/.exec(String(data))?.[1] : data;
      const remedy = isQuoted(bare) ? ': send the digits without quotes' : '';
      this.refuse(at, data, 'type', `must be ${name}${instead}${remedy}`, type);
      return;
    }
    for (const { rule, expected, message, holds } of limits)
      if (!holds(value))
        this.refuse(at, data, rule, message + (isInteger && rule !== 'multipleOf' ? instead : ''), expected);
    if (isBig(number)) this.change(at, BigInt(value));
    else if (number === 'double' && typeof data !== 'number') this.change(at, Number(value));
  };
}

interface IntegerRange {
  readonly min: bigint;
  readonly max: bigint;
}

/** The range of an integer: that of its format, within the limits of the schema. */
function integerRange({
  number,
  minimum,
  maximum,
  exclusiveMinimum,
  exclusiveMaximum,
}: Schema): IntegerRange {
  const range = integerRanges[isBig(number) ? number : 'double'];
  const least = [
    minimum && Math.ceil(minimum),
    exclusiveMinimum === undefined ? undefined : Math.floor(exclusiveMinimum) + 1,
  ];
  const most = [
    maximum && Math.floor(maximum),
    exclusiveMaximum === undefined ? undefined : Math.ceil(exclusiveMaximum) - 1,
  ];
  return {
    min: least.reduce<bigint>((a, b) => (b !== undefined && b > a ? BigInt(b) : a), range.min),
    max: most.reduce<bigint>((a, b) => (b !== undefined && b < a ? BigInt(b) : a), range.max),
  };
}

function rangeLimits({ min, max }: IntegerRange, name: string): Limit[] {
  const message = `must be ${name}`;
  return [
    { rule: 'minimum', expected: Number(min), message, holds: (value) => value >= min },
    { rule: 'maximum', expected: Number(max), message, holds: (value) => value <= max },
  ];
}

const comparisons = [
  ['minimum', '>=', (value: number | bigint, bound: number) => value >= bound],
  ['maximum', '<=', (value: number | bigint, bound: number) => value <= bound],
  ['exclusiveMinimum', '>', (value: number | bigint, bound: number) => value > bound],
  ['exclusiveMaximum', '<', (value: number | bigint, bound: number) => value < bound],
] as const;

function numberLimits(schema: Schema): Limit[] {
  return comparisons.flatMap(([rule, sign, compare]) => {
    const expected = schema[rule];
    if (expected === undefined) return [];
    const holds = (value: number | bigint) => compare(value, expected);
    return [{ rule, expected, message: `must be ${sign} ${expected}`, holds }];
  });
}

/** The powers of ten that can matter: with at most 21 digits, no number has more factors of two or five. */
const powers = Array.from({ length: 100 }, (_, i) => 10n ** BigInt(i));

/** The limit of multiples. Both numbers count as the decimal numbers that JSON has, and are not rounded. */
function multipleLimit({ multipleOf }: Schema): Limit[] {
  if (multipleOf === undefined) return [];
  const isSafe = Number.isSafeInteger(multipleOf);
  const of = decimalOf(multipleOf);
  const holds = (value: number | bigint) => {
    if (isSafe && Number.isSafeInteger(value)) return (value as number) % multipleOf === 0;
    const { digits, scale } = decimalOf(value);
    const shift = scale - of.scale;
    const zeros = powers[Math.min(Math.abs(shift), powers.length - 1)]!;
    return shift < 0 ? digits % (of.digits * zeros) === 0n : (digits * zeros) % of.digits === 0n;
  };
  return [{ rule: 'multipleOf', expected: multipleOf, message: `must be multiple of ${multipleOf}`, holds }];
}

/** The shortest decimal number that stands for a double, or all digits of a bigint: its value is digits times 10^scale. */
function decimalOf(value: number | bigint): { digits: bigint; scale: number } {
  const [mantissa = '', exponent = '0'] = String(value).split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  return { digits: BigInt(whole + fraction), scale: Number(exponent) - fraction.length };
}
