// The shape of a value: what all parts of its schema together say about types and places, without the limits.

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

/** How a number is represented in the code: as a bigint, as a safe integer, or as the nearest double. */
export type NumberForm = 'int64' | 'integer' | 'double';

/**
 * What is known about a value, whichever alternatives it has. Shapes are the nodes of a graph: that of a schema which
 * contains itself leads back to itself.
 */
export interface Shape {
  /** The possible types; undefined if the schema names none. */
  readonly types: readonly TypeName[] | undefined;
  /** `either` if some alternatives have int64s, and others do not; undefined if no schema says that it is a number. */
  readonly number: NumberForm | 'either' | undefined;
  readonly properties: Readonly<Record<string, Shape>>;
  readonly required: readonly string[];
  /** Other properties; undefined if a schema neither forbids nor describes them. */
  readonly additional: Shape | false | undefined;
  readonly items: Shape | undefined;
  /** Whether the value is bytes, where it is not JSON. */
  readonly binary?: boolean;
  /** The value of an absent property or parameter. */
  readonly default?: unknown;
}

/** The shape of a value about which nothing is known. */
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

/** The shape of a property of an object that has this shape. */
export function propertyOf({ properties, additional }: Shape, name: string): Shape {
  if (Object.hasOwn(properties, name)) return properties[name]!;
  return additional === false ? anything : (additional ?? anything);
}

/** The shapes of what is directly in a value that may have these types. */
function shapesInside({ types, properties, additional, items }: Shape): Shape[] {
  const inObject =
    types?.includes('object') === false ? [] : [...Object.values(properties), additional ?? anything];
  const inArray = types?.includes('array') === false ? [] : [items ?? anything];
  return [...inObject, ...inArray].filter((shape) => shape !== false);
}

/** How deep a value without a schema may be nested: deep enough for any document, and shallow enough to walk through. */
export const unknownDepth = 64;

/** The deepest nesting of arrays and objects in a value; at least `unknownDepth` if its schema contains itself. */
export function depthOf(root: Shape, known = new Map<Shape, number>()): number {
  // Without recursion, since the longest way through a graph can have as many steps as there are schemas.
  const stack = [root];
  for (let shape = stack.at(-1); shape !== undefined; shape = stack.at(-1)) {
    const inner = shape.types === undefined ? [] : shapesInside(shape);
    const isContainer = shape.types?.some((type) => type === 'object' || type === 'array') ?? true;
    const isFirst = !known.has(shape);
    if (isFirst) known.set(shape, unknownDepth);
    if (isFirst && inner.length > 0) {
      for (const one of inner) if (!known.has(one)) stack.push(one);
    } else {
      const depths = inner.map((one) => known.get(one)!);
      known.set(shape, shape.types === undefined ? unknownDepth : isContainer ? 1 + max(depths) : 0);
      stack.pop();
    }
  }
  return known.get(root)!;
}

function max(numbers: readonly number[]): number {
  return numbers.reduce((greatest, one) => Math.max(greatest, one), 0);
}
