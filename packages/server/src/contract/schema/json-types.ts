// The types of values of JSON, as schemas name them.

/** The types of JSON Schema. */
export const typeNames = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'] as const;
export type TypeName = (typeof typeNames)[number];

/** The type of a value of JSON; every number is a `number`. */
export function typeOf(value: unknown): TypeName {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : (typeof value as TypeName);
}

/** Whether a value is of one of these types, if there are any. */
export function isOfType(value: unknown, types: readonly TypeName[] | undefined): boolean {
  const isInteger = Number.isInteger(value) && types?.includes('integer') === true;
  return types === undefined || isInteger || types.includes(typeOf(value));
}

/** The representation of a number in the code: as a bigint, as a safe integer, or as the nearest double. */
export type NumberForm = 'int64' | 'uint64' | 'integer' | 'double';

/** Whether a number is represented as a bigint, wherever it is. */
export function isBig(form: NumberForm | undefined): form is 'int64' | 'uint64' {
  return form === 'int64' || form === 'uint64';
}

/** A number in decimal digits, as in JSON. */
export const decimalNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
