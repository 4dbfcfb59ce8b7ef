// Checks numbers exactly: the keyword `numeric` of Ajv, which accepts a bigint as an integer, and no rounded number.
import type { ErrorObject, FuncKeywordDefinition } from 'ajv';
import { integerRanges, isInexact, parseDecimal, toDouble } from '../../contract/exact-json.js';
import type { numericKeywords, Schema } from '../../contract/schema.js';
import { typeOf, type TypeName } from '../../contract/shape.js';
import { decimalNumber, notNumber, type ValueSource } from './fault-messages.js';

type NumericSchema = Pick<Schema, 'type' | 'enum' | (typeof numericKeywords)[number]> & {
  readonly isInt64: boolean;
};

/** The value of the keyword `numeric`. */
export interface NumericRule {
  /** A schema without the schemas inside it, which Ajv would walk through. */
  readonly schema: NumericSchema;
  readonly source: ValueSource;
}

type CompiledKeyword = ReturnType<NonNullable<FuncKeywordDefinition['compile']>>;
type Fault = Partial<ErrorObject>;

/**
 * Compiles `numeric`. It does not say what is wrong: for keywords that do, Ajv takes a time that grows with the square of
 * the number of errors.
 */
export function numericKeyword(rule: NumericRule): CompiledKeyword {
  const faultsOf = createCheck(rule);
  return (data: unknown) => faultsOf(data) === undefined;
}

/** What is wrong with a value for which `numeric` has failed, from an error of Ajv in its verbose mode. */
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
  const { check, rule } = isInteger ? integerCheck(schema) : numberCheck(schema);
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
    return [{ message: `${rule}${notNumber(data, source, hint, accepts)}` }];
  };
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
  const check = (data: Numeric): Fault[] | undefined => {
    const fits = Number.isSafeInteger(data)
      ? (data as number) >= low && (data as number) <= high
      : typeof data === 'bigint' && data >= min && data <= max;
    if (!fits) return wrongType;
    if (multipleOf === undefined && schema.enum === undefined) return undefined;
    return limitFaults(data as number | bigint, multipleOf, schema.enum);
  };
  return { check, rule: `must be an integer from ${min} to ${max}` };
}

/** Checks numbers; a fraction counts as the nearest double. */
function numberCheck(schema: NumericSchema) {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  const check = (data: Numeric): Fault[] | undefined => {
    const value = isInexact(data) ? toDouble(data) : data;
    if (value === undefined || (typeof value === 'number' && !Number.isFinite(value))) return wrongType;
    const faults: Fault[] = [];
    const demand = (holds: boolean, sign: string, bound: number | undefined) => {
      if (!holds) faults.push({ message: `must be ${sign} ${bound!}` });
    };
    demand(minimum === undefined || value >= minimum, '>=', minimum);
    demand(maximum === undefined || value <= maximum, '<=', maximum);
    demand(exclusiveMinimum === undefined || value > exclusiveMinimum, '>', exclusiveMinimum);
    demand(exclusiveMaximum === undefined || value < exclusiveMaximum, '<', exclusiveMaximum);
    const values = schema.type === undefined ? undefined : schema.enum;
    faults.push(...(limitFaults(value, multipleOf, values) ?? []));
    return faults.length > 0 ? faults : undefined;
  };
  return { check, rule: 'must be a number' };
}

function isMultiple(value: number | bigint, of: number): boolean {
  if (Number.isInteger(of) && (typeof value === 'bigint' || Number.isSafeInteger(value))) {
    return BigInt(value) % BigInt(of) === 0n;
  }
  return Number.isInteger(Number(value) / of);
}

function limitFaults(
  value: number | bigint,
  multipleOf: number | undefined,
  values: readonly unknown[] | undefined,
): Fault[] | undefined {
  const faults: Fault[] = [];
  if (multipleOf !== undefined && !isMultiple(value, multipleOf)) {
    faults.push({ message: `must be multiple of ${multipleOf}` });
  }
  // A bigint equals the same number.
  if (values !== undefined && !values.some((one) => typeof one === 'number' && one == value)) {
    faults.push({ params: { allowedValues: values } });
  }
  return faults.length > 0 ? faults : undefined;
}
