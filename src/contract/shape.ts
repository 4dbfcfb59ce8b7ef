// The shape of a value: what all parts of its schema together say about types and places, without the limits.

/** A type of JSON Schema. */
export type TypeName = 'null' | 'boolean' | 'integer' | 'number' | 'string' | 'array' | 'object';

/** How a number is represented in the code: as a bigint, as a safe integer, or as the nearest double. */
export type NumberForm = 'int64' | 'integer' | 'double';

/** What is known about a value; compositions are merged. */
export interface Shape {
  /** The possible types; undefined if the schema names none. */
  readonly types: readonly TypeName[] | undefined;
  /** Undefined if no schema says that the value is a number. */
  readonly number: NumberForm | undefined;
  readonly properties: Readonly<Record<string, Shape>>;
  readonly required: readonly string[];
  /** Other properties; undefined if a schema neither forbids nor describes them. */
  readonly additional: Shape | false | undefined;
  readonly items: Shape | undefined;
  /** The value of an absent property or parameter. */
  readonly default?: unknown;
}

/** The shape of a value of which nothing is known. */
export const anything: Shape = {
  types: undefined,
  number: undefined,
  properties: {},
  required: [],
  additional: undefined,
  items: undefined,
};

/** The shape of a property that is never there: in a request (`readOnly`) or in a response (`writeOnly`). */
export const absent: Shape = { ...anything, types: [] };

/** Leaves out of required names those of properties that are never there. */
export function withoutAbsent(required: readonly string[], properties: Shape['properties']): string[] {
  return required.filter((name) => !Object.hasOwn(properties, name) || properties[name] !== absent);
}

/**
 * Merges two shapes that a value has at the same time, as with `allOf`.
 * @param report - Called with what contradicts itself.
 */
export function mergeShapes(a: Shape, b: Shape, report: (message: string) => void): Shape {
  if (a === absent || b === absent) return absent;
  if (a === anything) return b;
  if (b === anything) return a;
  const forms = [a.number, b.number].filter((form) => form !== undefined);
  if (forms.includes('int64') && forms.some((form) => form !== 'int64')) {
    report('one number would have the format int64 and another one');
  }
  const types = a.types && b.types ? commonTypes(a.types, b.types) : (a.types ?? b.types);
  if (types?.length === 0) report('no value can have all of these types');
  const both = (one?: Shape, other?: Shape) =>
    one && other ? mergeShapes(one, other, report) : (one ?? other);
  const names = new Set([...Object.keys(a.properties), ...Object.keys(b.properties)]);
  const properties = Object.fromEntries(
    [...names].map((name) => [name, mergeShapes(propertyOf(a, name), propertyOf(b, name), report)]),
  );
  return {
    types,
    number: forms.includes('integer') ? 'integer' : forms[0],
    properties,
    required: withoutAbsent([...new Set([...a.required, ...b.required])], properties),
    additional: a.additional === false || b.additional === false ? false : both(a.additional, b.additional),
    items: both(a.items, b.items),
    ...('default' in a ? { default: a.default } : 'default' in b && { default: b.default }),
  };
}

/** The shape of a property of an object that has this shape. */
export function propertyOf({ properties, additional }: Shape, name: string): Shape {
  if (Object.hasOwn(properties, name)) return properties[name]!;
  return additional === false ? anything : (additional ?? anything);
}

function commonTypes(a: readonly TypeName[], b: readonly TypeName[]): TypeName[] {
  const has = (types: readonly TypeName[], type: TypeName) =>
    types.includes(type) || (type === 'integer' && types.includes('number'));
  return [...new Set([...a, ...b])].filter((type) => has(a, type) && has(b, type));
}

/** How deep a value without a schema may be nested: deep enough for any document, and shallow enough to walk through. */
export const unknownDepth = 64;

/** The deepest nesting of arrays and objects in a value. */
export function depthOf(shape: Shape): number {
  const { types, properties, additional, items } = shape;
  if (types === undefined) return unknownDepth;
  const inner = types.flatMap((type) => {
    if (type === 'object') return [...Object.values(properties), additional ?? anything];
    return type === 'array' ? [items ?? anything] : [];
  });
  if (!types.includes('object') && !types.includes('array')) return 0;
  return 1 + Math.max(0, ...inner.map((one) => (one === false ? 0 : depthOf(one))));
}
