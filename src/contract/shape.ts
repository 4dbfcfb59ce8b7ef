// The shape of a value: what all parts of its schema together say about types and places, without the limits.

/** The types of JSON Schema. */
export const typeNames = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'] as const;
export type TypeName = (typeof typeNames)[number];

/** The type of a value of JSON; every number is a `number`. */
export function typeOf(value: unknown): TypeName {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : (typeof value as TypeName);
}

/** How a number is represented in the code: as a bigint, as a safe integer, or as the nearest double. */
export type NumberForm = 'int64' | 'integer' | 'double';

/** What is known about a value; compositions are merged, and alternatives united. */
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
  /** If a value has alternatives: what is known whichever it has, and for each `anyOf` or `oneOf`, its schemas. */
  readonly choice?: Choice | undefined;
}

/** Alternatives of which a value has one, in each group. */
export interface Choice {
  readonly base: Shape;
  /** Schemas, by their shapes. */
  readonly groups: readonly (readonly { readonly shape: Shape }[])[];
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

/** Is called with what contradicts itself, and what to write instead. */
export type Report = (message: string, fix: string) => void;

const fields = [...Object.keys(anything), 'default', 'choice'] as (keyof Shape)[];

/** Shapes that are found when they are first read, because a schema contains itself. */
const postponed = new WeakSet<Shape>();

/** Combines the shapes of one document. */
export class Shapes {
  /** The shapes that have been combined but not found, so that the combinations of cycles end. */
  readonly #merged = new Map<Shape, Map<Shape, Shape>>();
  readonly #united = new Map<Shape, Map<Shape, Shape>>();
  readonly #unread: (() => Shape)[] = [];

  /**
   * Returns a shape that is found when it is first read.
   * @param refuse - Called if it depends on itself.
   */
  postpone(find: () => Shape, refuse: () => void): Shape {
    let found: Shape | undefined;
    let isFinding = false;
    const read = () => {
      if (isFinding) {
        refuse();
        return anything;
      }
      isFinding = true;
      found ??= find();
      isFinding = false;
      return found;
    };
    const shape = {} as Shape;
    for (const field of fields)
      Object.defineProperty(shape, field, { get: () => (found ?? read())[field], enumerable: true });
    postponed.add(shape);
    this.#unread.push(() => found ?? read());
    return shape;
  }

  /** Reads all postponed shapes, and so reports what they contradict. */
  settle(): void {
    for (const find of this.#unread) find();
    this.#unread.length = 0;
  }

  /** Merges two shapes that a value has at the same time, as with `allOf`. */
  merge(a: Shape, b: Shape, report: Report): Shape {
    if (a === absent || b === absent) return absent;
    if (a === anything || a === b) return b;
    if (b === anything) return a;
    return this.#once(this.#merged, a, b, () => this.#mergeNow(a, b, report), report);
  }

  /** Unites two shapes of which a value has one, as with `anyOf`. */
  unite(a: Shape, b: Shape, report: Report): Shape {
    if (a === absent || a === b) return b;
    if (b === absent) return a;
    return this.#once(this.#united, a, b, () => this.#uniteNow(a, b, report), report);
  }

  /** Returns a shape with a choice. */
  choose(shape: Shape, choice: () => Choice): Shape {
    const copy = () => ({ ...shape, choice: choice() });
    return postponed.has(shape) ? this.postpone(copy, () => undefined) : copy();
  }

  #once(known: Map<Shape, Map<Shape, Shape>>, a: Shape, b: Shape, find: () => Shape, report: Report): Shape {
    if (!postponed.has(a) && !postponed.has(b)) return find();
    const ofFirst = known.get(a) ?? new Map<Shape, Shape>();
    known.set(a, ofFirst);
    const refuse = () => {
      report('the schema contains itself', 'Refer to it only in a property or in items');
    };
    const shape = ofFirst.get(b) ?? this.postpone(find, refuse);
    ofFirst.set(b, shape);
    return shape;
  }

  #mergeNow(a: Shape, b: Shape, report: Report): Shape {
    const types = a.types && b.types ? commonTypes(a.types, b.types) : (a.types ?? b.types);
    if (types?.length === 0) report('no value can have all of these types', agree);
    const both = (one?: Shape, other?: Shape) =>
      one && other ? this.merge(one, other, report) : (one ?? other);
    const properties = combineProperties(a, b, (name) =>
      this.merge(propertyOf(a, name), propertyOf(b, name), report),
    );
    const fill = a.default === undefined ? b.default : a.default;
    return {
      types,
      number: commonNumber(a, b, ['integer', 'double'], report),
      properties,
      required: withoutAbsent([...new Set([...a.required, ...b.required])], properties),
      additional: a.additional === false || b.additional === false ? false : both(a.additional, b.additional),
      items: both(a.items, b.items),
      ...(fill !== undefined && { default: fill }),
      ...((a.choice ?? b.choice) && {
        choice: {
          base: this.merge(a.choice?.base ?? a, b.choice?.base ?? b, () => undefined),
          groups: [...(a.choice?.groups ?? []), ...(b.choice?.groups ?? [])],
        },
      }),
    };
  }

  #uniteNow(a: Shape, b: Shape, report: Report): Shape {
    // What only one of them describes may be anything in the other, unless that one forbids it.
    const either = (one: Shape | false | undefined, other: Shape | false | undefined, type: TypeName) => {
      if (one === false || a.types?.includes(type) === false) return other;
      if (other === false || b.types?.includes(type) === false) return one;
      return (one ?? other) ? this.unite(one ?? anything, other ?? anything, report) : undefined;
    };
    const ofName = (shape: Shape, name: string) =>
      Object.hasOwn(shape.properties, name) ? shape.properties[name] : shape.additional;
    if (JSON.stringify(a.default) !== JSON.stringify(b.default)) {
      report('not every alternative has the same default', 'Leave it out, and fill it in in the handler');
    }
    return {
      types: a.types && b.types && [...new Set([...a.types, ...b.types])],
      number: commonNumber(a, b, ['double', 'integer'], report),
      properties: combineProperties(
        a,
        b,
        (name) => either(ofName(a, name), ofName(b, name), 'object') || anything,
      ),
      required: a.required.filter((name) => b.required.includes(name)),
      additional: either(a.additional, b.additional, 'object'),
      items: either(a.items, b.items, 'array') || undefined,
      ...(a.default !== undefined && { default: a.default }),
    };
  }
}

const agree = 'Let all parts of allOf, and all alternatives, agree';

function combineProperties(a: Shape, b: Shape, combine: (name: string) => Shape): Shape['properties'] {
  const names = new Set([...Object.keys(a.properties), ...Object.keys(b.properties)]);
  return Object.fromEntries([...names].map((name) => [name, combine(name)]));
}

/** @param order - Which of the two forms that a number can have at the same time prevails. */
function commonNumber(
  a: Shape,
  b: Shape,
  order: readonly NumberForm[],
  report: Report,
): NumberForm | undefined {
  const forms = [a.number, b.number].filter((form) => form !== undefined);
  if (forms.includes('int64') && forms.some((form) => form !== 'int64')) {
    report('one number would have the format int64 and another one', agree);
  }
  return order.find((form) => forms.includes(form)) ?? forms[0];
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

/** The deepest nesting of arrays and objects in a value; `unknownDepth` if its schema contains itself. */
export function depthOf(shape: Shape, known = new Map<Shape, number>()): number {
  const { types, properties, additional, items } = shape;
  if (types === undefined) return unknownDepth;
  const found = known.get(shape);
  if (found !== undefined) return found;
  known.set(shape, unknownDepth);
  const inner = types.flatMap((type) => {
    if (type === 'object') return [...Object.values(properties), additional ?? anything];
    return type === 'array' ? [items ?? anything] : [];
  });
  const isContainer = types.includes('object') || types.includes('array');
  const depths = inner.map((one) => (one === false ? 0 : depthOf(one, known)));
  const depth = isContainer ? 1 + Math.max(0, ...depths) : 0;
  known.set(shape, depth);
  return depth;
}
