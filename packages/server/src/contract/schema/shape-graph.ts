// Finds the shapes of values, as the nodes of a graph: one for all schemas that can apply to a value together.
import { bothOf, eitherOf, keyOf, open, type Alternatives, type Term } from './alternatives.js';
import {
  combiningKeywords,
  isAnything,
  partsOf,
  type MutableSchema,
  type Schema,
  type Use,
} from './schema.js';
import { expand, ownShape, type OwnShape } from './own-shape.js';
import {
  absent,
  anything,
  isOfType,
  typeNames,
  type NumberForm,
  type Shape,
  type TypeName,
} from './shape.js';

/** Where a schema is written, and how its values are used. */
export interface Origin {
  readonly use: Use;
  /** Is called with what contradicts itself, and what to write instead. */
  readonly report: (message: string, fix: string) => void;
  /** Is called, at least once, with a schema whose default is not filled in everywhere. */
  readonly loseDefault: (schema: Schema) => void;
}

/** A shape that is being found. */
type MutableShape = { -readonly [Field in keyof Shape]: Shape[Field] };

/** What the schemas of a term say together. */
interface Combined extends Omit<OwnShape, 'properties' | 'number'> {
  readonly number: Shape['number'];
  readonly parts: readonly OwnShape[];
  /** A property that one part requires, and that another one, which is closed, does not have. */
  readonly excluded: string | undefined;
  /** The schema whose default is filled in. */
  readonly filling: Schema | undefined;
  /** Whether that default is of another type, or not in an enum. */
  readonly refusesFilling: boolean;
}

/**
 * The maximum number of steps that finding all shapes takes. Shapes are sets of sets of schemas: finitely many, but
 * possibly far too many.
 */
const maxSteps = 2_000_000;

/** The maximum nesting of schemas that are combined in one another. */
const maxCombined = 100;

const agree = 'Let all parts of allOf, and all alternatives, agree';

/** The shapes of the values of one document. */
export class ShapeGraph {
  readonly #origins = new Map<Schema, Origin>();
  readonly #own = new Map<Schema, OwnShape>();
  readonly #expanded = new Map<Schema, Alternatives>();
  readonly #shapes = new Map<string, MutableShape>();
  readonly #unchecked: MutableSchema[] = [];
  /** How deeply schemas are combined in each one. */
  readonly #combined = new Map<Schema, number>();
  readonly #waiting: (() => void)[] = [];
  #steps = 0;

  /** Returns the shape of a schema; `settle` finds it, since the schema may not be complete yet. */
  shapeOf(schema: Schema, origin: Origin): Shape {
    if (isAnything(schema)) return anything;
    this.#origins.set(schema, origin);
    this.#unchecked.push(schema);
    return this.#shape([[schema]], origin);
  }

  /** Finds all shapes, and reports what they contradict. */
  settle(): void {
    for (const schema of this.#unchecked.splice(0)) this.#checkCombined(schema, new Set());
    for (let find = this.#waiting.pop(); find !== undefined; find = this.#waiting.pop())
      if (this.#steps <= maxSteps) find();
  }

  /**
   * Refuses a schema that contains itself other than in its properties or items; it then combines none.
   * @returns How deeply schemas are combined in one another.
   */
  #checkCombined(schema: MutableSchema, outer: Set<Schema>): number {
    const known = this.#combined.get(schema);
    if (known !== undefined) return known;
    outer.add(schema);
    let depth = 0;
    for (const part of partsOf(schema, combiningKeywords)) {
      const isCycle = outer.has(part) && !this.#combined.has(part);
      depth = Math.max(depth, isCycle ? Infinity : 1 + this.#checkCombined(part, outer));
    }
    outer.delete(schema);
    if (depth > maxCombined) {
      const message =
        depth === Infinity
          ? 'the schema contains itself'
          : `more than ${maxCombined} schemas are combined in one another`;
      this.#origins.get(schema)?.report(message, 'Refer to it only in a property or in items');
      for (const keyword of combiningKeywords) Reflect.deleteProperty(schema, keyword);
      depth = 0;
    }
    this.#combined.set(schema, depth);
    return depth;
  }

  /** @param outer - Where the composition is written that several schemas follow from. */
  #shape(alternatives: Alternatives, outer: Origin): Shape {
    const [[only, ...more] = [], ...others] = alternatives;
    if (alternatives.length === 0) return absent;
    if (only === undefined && others.length === 0) return anything;
    const isSingle = more.length === 0 && others.length === 0;
    const origin = (isSingle ? this.#origins.get(only!) : undefined) ?? outer;
    const key = `${origin.use} ${alternatives.map(keyOf).sort().join('|')}`;
    const known = this.#shapes.get(key);
    if (known !== undefined) return known;
    const shape: MutableShape = { ...anything };
    this.#shapes.set(key, shape);
    this.#waiting.push(() => {
      this.#find(shape, alternatives, origin);
    });
    return shape;
  }

  #find(shape: MutableShape, alternatives: Alternatives, origin: Origin): void {
    const terms = eitherOf(
      alternatives.map((term) => bothOf(term.map((schema) => expand(schema, this.#expanded)))),
    );
    const combined = terms.map((term) => this.#combine(term, origin));
    const possible = combined.filter(({ types }) => types?.length !== 0);
    const excluded = combined.find((term) => term.excluded !== undefined)?.excluded;
    if (possible.length === 0 && excluded !== undefined)
      origin.report(
        `no object has ${excluded} in all parts: one requires it, and another one has no additional properties`,
        'Leave additionalProperties: false out of the parts, or write all properties in one schema',
      );
    else if (possible.length === 0) origin.report('no value can have all of these types', agree);
    const fills = possible.map((term) => term.filling?.default);
    const [fill] = fills;
    const isSame = fills.every((one) => JSON.stringify(one) === JSON.stringify(fill));
    const isRefused = fill !== undefined && possible.every(({ refusesFilling }) => refusesFilling);
    if (!isSame || isRefused)
      for (const { filling } of possible) if (filling) this.#origins.get(filling)?.loseDefault(filling);
    const isDescribed = possible.every(({ types }) => types !== undefined);
    if (isDescribed) shape.types = [...new Set(possible.flatMap(({ types = [] }) => types))];
    shape.number = numberOf(possible, ['double', 'integer', 'int64']);
    if (isSame && fill !== undefined && !isRefused) shape.default = fill;
    if (possible.some(({ binary }) => binary)) shape.binary = true;
    this.#findInside(shape, possible, origin);
  }

  /** Finds what the schemas of a term say together about the value itself, and about its unnamed parts. */
  #combine(term: Term, origin: Origin): Combined {
    const parts = term.map((schema) => this.#ownOf(schema));
    const types = parts.map((one) => one.types).filter((one) => one !== undefined);
    const excluded = excludedName(parts);
    if (excluded !== undefined) types.push(typeNames.filter((type) => type !== 'object' && types.length > 0));
    const all = (each: readonly (Alternatives | false | undefined)[]) => {
      const described = each.filter((one) => one !== undefined);
      if (described.includes(false)) return false;
      return described.length === 0 ? undefined : bothOf(described as Alternatives[]);
    };
    const number = numberOf(parts, ['integer', 'double', 'int64']);
    if (number === 'either') origin.report('one number would have the format int64 and another one', agree);
    const filling = term.find((schema) => schema.default !== undefined);
    return {
      parts,
      types: types.length === 0 ? undefined : types.reduce(commonTypes),
      number,
      binary: parts.some(({ binary }) => binary),
      required: parts.flatMap(({ required }) => required),
      excluded,
      filling,
      refusesFilling: filling !== undefined && term.some((schema) => refuses(schema, filling.default)),
      additional: all(parts.map(({ additional }) => additional)),
      items: all(parts.map(({ items }) => items)),
    };
  }

  #ownOf(schema: Schema): OwnShape {
    const known = this.#own.get(schema);
    const own = known ?? ownShape(schema)!;
    if (known === undefined) this.#own.set(schema, own);
    return own;
  }

  #findInside(shape: MutableShape, all: readonly Combined[], origin: Origin): void {
    const names = new Set(
      all.flatMap(({ parts }) => parts.flatMap(({ properties }) => Object.keys(properties))),
    );
    this.#steps += (names.size + 1) * all.reduce((sum, { parts }) => sum + parts.length, 1);
    if (this.#steps > maxSteps) {
      const fix = 'Refer to fewer schemas in alternatives, above all back to the schema itself';
      origin.report('its alternatives combine in too many ways', fix);
      return;
    }
    const objects = all.filter(({ types }) => types?.includes('object') ?? true);
    const arrays = all.filter(({ types }) => types?.includes('array') ?? true);
    const inside = (alternatives: Alternatives) => this.#shape(alternatives, origin);
    shape.properties = Object.fromEntries(
      [...names].map((name) => [name, inside(propertyIn(objects.length > 0 ? objects : all, name))]),
    );
    const [first, ...others] = all;
    shape.required = [...new Set(first?.required)].filter(
      (name) => shape.properties[name] !== absent && others.every(({ required }) => required.includes(name)),
    );
    const additional = either(objects.map((one) => one.additional));
    shape.additional = additional && inside(additional);
    const items = either(arrays.map((one) => one.items));
    shape.items = items ? inside(items) : undefined;
  }
}

/** Whether a value is of another type than a schema says, or not one that it lists. */
function refuses({ type, enum: listed }: Schema, value: unknown): boolean {
  const isListed = listed?.some((one) => JSON.stringify(one) === JSON.stringify(value)) ?? true;
  return !isListed || !isOfType(value, type);
}

function excludedName(parts: readonly OwnShape[]): string | undefined {
  const closed = parts.filter(({ additional }) => additional === false);
  const isElsewhere = (name: string) => parts.some(({ properties }) => Object.hasOwn(properties, name));
  return parts
    .flatMap(({ required }) => required)
    .find((name) => isElsewhere(name) && closed.some(({ properties }) => !Object.hasOwn(properties, name)));
}

/** Joins what alternatives say: what only some describe may be anything in the others, unless they forbid it. */
function either(each: readonly (Alternatives | false | undefined)[]): Alternatives | false | undefined {
  const allowed = each.filter((one) => one !== false);
  if (allowed.length === 0 && each.length > 0) return false;
  const isSaid = allowed.some((one) => one !== undefined);
  return isSaid ? eitherOf(allowed.map((one) => one ?? open)) : undefined;
}

/** The alternatives of a property, from the terms of its object. */
function propertyIn(all: readonly Combined[], name: string): Alternatives {
  const isNamed = ({ properties }: OwnShape) => Object.hasOwn(properties, name);
  const allowing = all.filter(({ parts }) => parts.every((one) => one.additional !== false || isNamed(one)));
  const ofTerm = ({ parts }: Combined) =>
    bothOf(parts.map((one) => (isNamed(one) ? one.properties[name]! : one.additional || open)));
  return eitherOf((allowing.length > 0 ? allowing : all).map(ofTerm));
}

/** @param order - Which of the forms that a number can have at the same time prevails. */
function numberOf(
  all: readonly Pick<Combined, 'number'>[],
  order: readonly NumberForm[],
): NumberForm | 'either' | undefined {
  const forms = new Set(all.map(({ number }) => number));
  forms.delete(undefined);
  return forms.has('int64') && forms.size > 1 ? 'either' : order.find((form) => forms.has(form));
}

function commonTypes(a: readonly TypeName[], b: readonly TypeName[]): readonly TypeName[] {
  const has = (types: readonly TypeName[], type: TypeName) =>
    types.includes(type) || (type === 'integer' && types.includes('number'));
  return [...new Set([...a, ...b])].filter((type) => has(a, type) && has(b, type));
}
