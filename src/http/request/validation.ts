// Validates requests with Ajv against the contract's schemas, without changing anything, and with exact numbers.
import { Ajv, type AnySchemaObject, type ErrorObject, type FuncKeywordDefinition } from 'ajv';
import type { Schema } from '../../contract/schema.js';
import { ApiError, catalogue, type ErrorEntry } from '../../errors.js';
import { integerRanges, isInexact, parseDecimal, toDouble } from '../../contract/exact-json.js';
import { anything, propertyOf, withoutAbsent, type Shape } from '../../contract/shape.js';
import { decimalNumber, describe, notNumber, type Source } from './faults.js';
import { addTextFormats } from './formats.js';

/** Returns a description of all faults of a value, or undefined if it is valid. */
export type Validator = (data: unknown) => string | undefined;

const inheritedNames = Object.getOwnPropertyNames(Object.prototype);

/**
 * Creates an Ajv instance that reports all faults, coerces and removes nothing, and refuses unknown keywords.
 * @param document - The contract.
 */
export function createAjv(document: object): Ajv {
  const text = JSON.stringify(document);
  const ajv = new Ajv({
    allErrors: true,
    // Messages say what came instead of the right type.
    verbose: true,
    coerceTypes: false,
    removeAdditional: false,
    useDefaults: false,
    // Parts of a composition may leave the type to another part.
    strictTypes: false,
    // Slower, and needed only for properties with names that objects inherit, such as "constructor".
    ownProperties: inheritedNames.some((name) => text.includes(`"${name}"`)),
  });
  addTextFormats(ajv);
  ajv.addKeyword({ keyword: 'numeric', errors: true, compile: numericKeyword });
  ajv.addKeyword({
    keyword: 'wellFormed',
    type: 'string',
    error: { message: 'must not contain unpaired surrogates' },
    validate: (_: true, data: string) => data.isWellFormed(),
  });
  ajv.addKeyword({
    keyword: 'refused',
    error: { message: 'is read-only: leave it out' },
    validate: () => false,
  });
  return ajv;
}

/**
 * Compiles the validator of a part of a request.
 * @param schema - Its schema in the normal form.
 * @param source - Whether the part is JSON, or texts that have been read as what the schema says.
 */
export function createValidator(ajv: Ajv, schema: Schema, source: Source): Validator {
  const validate = ajv.compile(forRequests(schema, source));
  return (data) => (validate(data) ? undefined : describe(validate.errors ?? [], source));
}

/**
 * Checks every entry of the error catalogue, and a service's own errors, against a schema of the contract's errors. An
 * own error takes the place of an entry with its name.
 * @throws Error naming the entry that does not match, or whose code is taken or belongs to no status of an error.
 */
export function checkCatalogue(
  ajv: Ajv,
  errorSchema: Schema,
  errors: Readonly<Record<string, ErrorEntry>>,
): void {
  const validate = createValidator(ajv, errorSchema, 'json');
  const names = new Map<number, string>();
  for (const [name, entry] of Object.entries<ErrorEntry>({ ...catalogue, ...errors })) {
    const { code } = entry;
    const taken = names.get(code);
    if (taken !== undefined)
      throw new Error(
        `The errors ${taken} and ${name} have the same code, ${code}. Give each its own; src/errors.ts has those of the server`,
      );
    if (!Number.isInteger(code) || code < 400_00 || code > 599_99)
      throw new Error(
        `The code of the error ${name} is not an HTTP status from 400 to 599 times 100, plus a number: ${code}`,
      );
    names.set(code, name);
    const fault = validate(JSON.parse(new ApiError(entry).json));
    if (fault !== undefined) throw new Error(`Error ${name} does not match the contract: ${fault}`);
  }
}

const bounds = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'] as const;
/** The keywords that Ajv gets as they are. */
const plainKeywords = [
  ...([
    'format',
    'enum',
    'minLength',
    'maxLength',
    'pattern',
    'minItems',
    'maxItems',
    'uniqueItems',
  ] as const),
  ...(['minProperties', 'maxProperties'] as const),
];

/**
 * Rewrites a schema for Ajv. Numbers are checked by the keyword `numeric`, because Ajv does not accept a bigint as an
 * integer, and accepts a rounded number. Every string must be well-formed.
 * @param shape - What all schemas of the value say together: a property that one refuses, no other one requires.
 */
function forRequests(schema: Schema, source: Source, shape = schema.shape): AnySchemaObject {
  const { type, enum: values, items, properties, required, additionalProperties, allOf } = schema;
  const inner = (one: Schema, at: Shape) => forRequests(one, source, at);
  const property = ([name, one]: [string, Schema]) =>
    [name, one.refused ? { refused: true } : inner(one, propertyOf(shape, name))] as const;
  const isNumeric =
    (type?.some((name) => name === 'integer' || name === 'number') ?? false) ||
    bounds.some((keyword) => schema[keyword] !== undefined);
  const takesString = type?.includes('string') ?? true;
  const written: AnySchemaObject = {
    ...Object.fromEntries(
      plainKeywords.map((keyword) => [keyword, schema[keyword]] as const).filter(isGiven),
    ),
    ...(type !== undefined && { type: type.length === 1 ? type[0] : type }),
    ...(takesString && { wellFormed: true }),
    ...(items !== undefined && { items: inner(items, shape.items ?? anything) }),
    ...(properties !== undefined && {
      properties: Object.fromEntries(Object.entries(properties).map(property)),
    }),
    ...(required !== undefined && { required: withoutAbsent(required, shape.properties) }),
    ...(additionalProperties !== undefined && {
      additionalProperties: additionalProperties && inner(additionalProperties, shape.additional || anything),
    }),
    ...(allOf !== undefined && { allOf: allOf.map((one) => inner(one, shape)) }),
  };
  if (!isNumeric) return written;
  delete written['type'];
  if (type !== undefined && values !== undefined) delete written['enum'];
  return { ...written, numeric: { schema, source } satisfies NumericRule };
}

function isGiven([, value]: readonly [string, unknown]): boolean {
  return value !== undefined;
}

/** The value of the keyword `numeric`. */
interface NumericRule {
  readonly schema: Schema;
  readonly source: Source;
}

type CompiledKeyword = ReturnType<NonNullable<FuncKeywordDefinition['compile']>>;
type Fault = Partial<ErrorObject>;

/** Compiles `numeric`: checks the type of a value, and if it is a number, its limits. */
function numericKeyword({ schema, source }: NumericRule): CompiledKeyword {
  const { type, enum: values } = schema;
  const others = type?.filter((name) => name !== 'integer' && name !== 'number');
  const isInteger = type !== undefined && !type.includes('number');
  const { check, rule } = isInteger ? integerCheck(schema) : numberCheck(schema);
  const hint = isInteger ? ', in canonical decimal digits' : type === undefined ? '' : ', in decimal digits';
  const accepts = (digits: string) => {
    const value = isInteger ? parseDecimal(digits) : decimalNumber.test(digits) ? Number(digits) : undefined;
    return value !== undefined && check(value) === undefined;
  };
  const keyword: CompiledKeyword = (data: unknown) => {
    const isNumber = typeof data === 'number' || typeof data === 'bigint' || isInexact(data);
    if (!isNumber && (others === undefined || others.includes(typeOf(data) as never))) {
      if (others === undefined || values === undefined || values.includes(data)) return true;
    }
    const faults = isNumber ? check(data) : wrongType;
    if (faults === undefined) return true;
    const ending = notNumber(data, source, hint, accepts);
    keyword.errors = faults === wrongType ? [{ message: `${rule}${ending}` }] : faults;
    return false;
  };
  return keyword;
}

/** Stands for a value that is not of the type, or outside its range. */
const wrongType: Fault[] = [];

/** The type of JSON Schema that a value has, unless it is a number. */
function typeOf(data: unknown): string {
  if (data === null) return 'null';
  return Array.isArray(data) ? 'array' : typeof data;
}

type Numeric = number | bigint | symbol;

/** Checks integers; bigint and number compare exactly. */
function integerCheck({
  minimum,
  maximum,
  exclusiveMinimum,
  exclusiveMaximum,
  multipleOf,
  ...schema
}: Schema) {
  const range = integerRanges[schema.shape.number === 'int64' ? 'int64' : 'double'];
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
function numberCheck({
  minimum,
  maximum,
  exclusiveMinimum,
  exclusiveMaximum,
  multipleOf,
  ...schema
}: Schema) {
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
