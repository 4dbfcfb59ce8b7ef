// Checks numbers exactly: the keyword `numeric` of Ajv, which accepts a bigint as an integer, and no rounded number.
import type { ErrorObject, FuncKeywordDefinition } from 'ajv';
import { integerRanges, isInexact, parseDecimal, toDouble } from '../../../contract/document/exact-json.js';
import type { numericKeywords, Schema } from '../../../contract/schema/schema.js';
import { typeOf, type TypeName } from '../../../contract/schema/json-types.js';

/** The source of a value: JSON has types, the other parts of a request have only text. */
export type ValueSource = 'json' | 'text';

/** A number in decimal digits, as in JSON. */
export const decimalNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

type NumericSchema = Pick<Schema, 'type' | 'enum' | (typeof numericKeywords)[number]> & {
  readonly isInt64: boolean;
};

/** The value of the keyword `numeric`. */
export interface NumericRule {
  /** A schema without the schemas inside it, which Ajv would walk through. */
  readonly schema: NumericSchema;
  readonly source: ValueSource;
}

/** The function that checks values for a keyword of Ajv. */
export type CompiledKeyword = ReturnType<NonNullable<FuncKeywordDefinition['compile']>>;
type Fault = Partial<ErrorObject>;

/**
 * Compiles `numeric`, which reports no errors of its own: for keywords that do, Ajv takes a time that grows with the
 * square of the number of errors.
 */
export function numericKeyword(rule: NumericRule): CompiledKeyword {
  const faultsOf = createCheck(rule);
  return (data: unknown) => faultsOf(data) === undefined;
}

/** The faults of a value for which `numeric` has failed, from an error of Ajv in its verbose mode. */
export function numericFaults({ schema, data }: ErrorObject): Fault[] {
  return createCheck(schema as NumericRule)(data) ?? [];
}

/** Creates the function that checks the type of a value, and if it is a number, its limits. */
function createCheck({ schema, source }: NumericRule): (data: unknown) => Fault[] | undefined {
  const { type, enum: values } = schema;
  const others: readonly TypeName[] | undefined = type?.filter(
    (name) => name !== 'integer' && name !== 'number',
  );
  const isInteger = type !== undefined && !type.includes('number');
  const { check, rule, keywordOf } = isInteger ? integerCheck(schema) : numberCheck(schema);
  const hint = isInteger ? ', in canonical decimal digits' : type === undefined ? '' : ', in decimal digits';
  const accepts = (digits: string) => {
    const value = isInteger ? parseDecimal(digits) : decimalNumber.test(digits) ? Number(digits) : undefined;
    return value !== undefined && check(value) === undefined;
  };
  return (data) => {
    const isNumber = typeof data === 'number' || typeof data === 'bigint' || isInexact(data);
    if (!isNumber && others === undefined) return undefined;
    if (!isNumber && others?.includes(typeOf(data)) && (values?.includes(data) ?? true)) return undefined;
    const faults = isNumber ? check(data) : wrongType;
    if (faults !== wrongType) return faults;
    const keyword = isNumber ? keywordOf(data) : 'type';
    return [
      {
        keyword,
        params: { expected: schema[keyword] },
        message: `${rule}${notNumber(data, source, hint, accepts)}`,
      },
    ];
  };
}

/**
 * The end of the message about a value that is not a number, or is one of the wrong kind or size: the actual kind, or
 * the required notation. A quoted number is called one only if its digits would be accepted without the quotes.
 * @param hint - The required notation in a text.
 * @param accepts - Whether a text without quotes would be accepted.
 */
function notNumber(
  data: unknown,
  source: ValueSource,
  hint: string,
  accepts: (digits: string) => boolean,
): string {
  const kind = kindOf(data);
  const instead = source === 'text' ? hint : kind === 'a number' ? '' : `, not ${kind}`;
  const digits = source === 'text' ? /^"([^"]*)"$/.exec(String(data))?.[1] : data;
  const isQuoted = typeof digits === 'string' && accepts(digits);
  return `${instead}${isQuoted ? ': send the digits without quotes' : ''}`;
}

/** The kind of a value that has the wrong type, for messages. */
export function kindOf(data: unknown): string {
  if (data === null || typeof data === 'boolean') return String(data);
  if (Array.isArray(data)) return 'an array';
  return { object: 'an object', string: 'a string' }[typeof data as string] ?? 'a number';
}

/** Stands for a value that is not of the type, or outside its range. */
const wrongType: Fault[] = [];

type Numeric = number | bigint | symbol;

/** Checks integers; bigint and number compare exactly. */
function integerCheck(schema: NumericSchema) {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  const range = integerRanges[schema.isInt64 ? 'int64' : 'double'];
  const least = [
    minimum && Math.ceil(minimum),
    exclusiveMinimum !== undefined ? Math.floor(exclusiveMinimum) + 1 : undefined,
  ];
  const most = [
    maximum && Math.floor(maximum),
    exclusiveMaximum !== undefined ? Math.ceil(exclusiveMaximum) - 1 : undefined,
  ];
  const min = least.reduce<bigint>((a, b) => (b !== undefined && b > a ? BigInt(b) : a), range.min);
  const max = most.reduce<bigint>((a, b) => (b !== undefined && b < a ? BigInt(b) : a), range.max);
  // Safe integers compare exactly with the rounded bounds, and faster.
  const [low, high] = [Number(min), Number(max)];
  const limits = limitCheck(multipleOf, schema.enum);
  const check = (data: Numeric): Fault[] | undefined => {
    const fits = Number.isSafeInteger(data)
      ? (data as number) >= low && (data as number) <= high
      : typeof data === 'bigint' && data >= min && data <= max;
    if (!fits) return wrongType;
    const faults = limits?.(data as number | bigint) ?? [];
    return faults.length > 0 ? faults : undefined;
  };
  const keywordOf = (data: Numeric): keyof NumericSchema => {
    if (typeof data === 'symbol' || (typeof data === 'number' && !Number.isInteger(data))) return 'type';
    return data < min ? 'minimum' : 'maximum';
  };
  return { check, rule: `must be an integer from ${min} to ${max}`, keywordOf };
}

type Holds = (value: number | bigint, bound: number) => boolean;
const comparisons: readonly (readonly [keyword: keyof NumericSchema, sign: string, holds: Holds])[] = [
  ['minimum', '>=', (value, bound) => value >= bound],
  ['maximum', '<=', (value, bound) => value <= bound],
  ['exclusiveMinimum', '>', (value, bound) => value > bound],
  ['exclusiveMaximum', '<', (value, bound) => value < bound],
];

/** Checks numbers; a fraction counts as the nearest double. */
function numberCheck(schema: NumericSchema) {
  const bounds = comparisons.filter(([keyword]) => schema[keyword] !== undefined);
  const limits = limitCheck(schema.multipleOf, schema.type === undefined ? undefined : schema.enum);
  const check = (data: Numeric): Fault[] | undefined => {
    const value = isInexact(data) ? toDouble(data) : data;
    if (value === undefined || (typeof value === 'number' && !Number.isFinite(value))) return wrongType;
    const faults: Fault[] = [];
    for (const [keyword, sign, holds] of bounds) {
      const bound = schema[keyword] as number;
      if (!holds(value, bound))
        faults.push({ keyword, params: { expected: bound }, message: `must be ${sign} ${bound}` });
    }
    faults.push(...(limits?.(value) ?? []));
    return faults.length > 0 ? faults : undefined;
  };
  return { check, rule: 'must be a number', keywordOf: (): keyof NumericSchema => 'type' };
}

/** The powers of ten that can matter: with at most 21 digits, no number has more factors of two or five. */
const powers = Array.from({ length: 100 }, (_, i) => 10n ** BigInt(i));

type Test = (value: number | bigint) => boolean;

/** Creates the test for multiples of a number. Both count as the decimal numbers that JSON has, and are not rounded. */
function multiplesOf(divisor: number): Test {
  const isSafe = Number.isSafeInteger(divisor);
  const of = decimalOf(divisor);
  return (value) => {
    if (isSafe && Number.isSafeInteger(value)) return (value as number) % divisor === 0;
    const { digits, scale } = decimalOf(value);
    const shift = scale - of.scale;
    const zeros = powers[Math.min(Math.abs(shift), powers.length - 1)]!;
    return shift < 0 ? digits % (of.digits * zeros) === 0n : (digits * zeros) % of.digits === 0n;
  };
}

/** The shortest decimal number that stands for a double, or all digits of a bigint: its value is digits times 10^scale. */
function decimalOf(value: number | bigint): { digits: bigint; scale: number } {
  const [mantissa = '', exponent = '0'] = String(value).split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  return { digits: BigInt(whole + fraction), scale: Number(exponent) - fraction.length };
}

/** Creates the function that checks the limits that integers and other numbers share; undefined if there are none. */
function limitCheck(
  multipleOf: number | undefined,
  values: readonly unknown[] | undefined,
): ((value: number | bigint) => Fault[]) | undefined {
  if (multipleOf === undefined && values === undefined) return undefined;
  const isMultiple = multipleOf === undefined ? undefined : multiplesOf(multipleOf);
  return (value) => {
    const faults: Fault[] = [];
    if (isMultiple?.(value) === false)
      faults.push({
        keyword: 'multipleOf',
        params: { multipleOf },
        message: `must be multiple of ${multipleOf!}`,
      });
    // A bigint equals the same number.
    if (values?.some((one) => typeof one === 'number' && one == value) === false)
      faults.push({ keyword: 'enum', params: { allowedValues: values } });
    return faults;
  };
}
