// The shape of a value: the types and places that all parts of its schema describe together, without the limits.
import { isBig, isOfType, typeOf, type NumberForm, type TypeName } from './json-types.js';
import { isAnything, isNothing, type Schema } from './schema.js';

/** Facts about a value, whichever alternatives it matches. */
export interface Shape {
  /** The possible types; undefined if the schema names none. */
  readonly types: readonly TypeName[] | undefined;
  /** Undefined if no schema says that it is a number, or alternatives differ. */
  readonly number: NumberForm | undefined;
  /** Whether the value is bytes, where it is not JSON. */
  readonly binary: boolean;
  /** The value of an absent property or parameter. */
  readonly default: unknown;
  /** Whether a value is of the types, and listed if values are. */
  readonly accepts: (value: unknown) => boolean;
  readonly properties: Readonly<Record<string, Shape>>;
  readonly required: readonly string[];
  /** Other properties; undefined if a schema neither forbids nor describes them. */
  readonly additional: Shape | false | undefined;
  readonly items: Shape | undefined;
  /** The shapes that a value has at the same time, if there are several. */
  readonly parts: readonly Shape[];
}

/** Facts about the parts of a value, and those about itself. */
type Inside = Pick<Shape, 'properties' | 'required' | 'additional' | 'items'>;
type Outside = Omit<Shape, keyof Inside | 'parts'>;

/** The shape of a schema that contains itself has no end, so the facts about the parts are found when needed. */
function createShape(outside: Outside, find: () => Inside, parts: readonly Shape[] = []): Shape {
  let inside: Inside | undefined;
  const read = () => (inside ??= find());
  const { default: value, accepts } = outside;
  return {
    ...outside,
    default: value === undefined || accepts(value) ? value : undefined,
    parts,
    get properties() {
      return read().properties;
    },
    get required() {
      return read().required;
    },
    get additional() {
      return read().additional;
    },
    get items() {
      return read().items;
    },
  };
}

const unknown = { types: undefined, number: undefined, binary: false, default: undefined };
const empty: Inside = { properties: {}, required: [], additional: undefined, items: undefined };

/** The shape of a value about which nothing is known. */
export const anything = createShape({ ...unknown, accepts: () => true }, () => empty);

/** The shape of a property that is never there: in a request (`readOnly`) or in a response (`writeOnly`). */
export const absent = createShape({ ...unknown, types: [], accepts: () => false }, () => empty);

const shapes = new WeakMap<Schema, Shape>();

/** Returns the shape of a schema that has been read. */
export function shapeOf(schema: Schema): Shape {
  if (isAnything(schema) || isNothing(schema)) return anything;
  let shape = shapes.get(schema);
  if (shape === undefined) shapes.set(schema, (shape = allOf(shapesIn(schema))));
  return shape;
}

/** The shape of a property, which may be one that is never there. */
export function propertyShape(schema: Schema): Shape {
  return schema.refused ? absent : shapeOf(schema);
}

/** Returns a schema's own shape, and that of each group of schemas that apply to the same value. */
function shapesIn(schema: Schema): Shape[] {
  const {
    allOf: all = [],
    anyOf: some,
    oneOf,
    if: condition,
    then,
    else: otherwise,
    dependentSchemas = {},
  } = schema;
  const of = (part: Schema | undefined) => (part === undefined ? anything : shapeOf(part));
  const branches = condition && (then ?? otherwise) && [then, otherwise];
  const dependent = Object.values(dependentSchemas).map((part) => [part, undefined]);
  const groups = [some, oneOf, branches, ...dependent].filter((group) => group !== undefined);
  return [ownShape(schema), ...all.map(shapeOf), ...groups.map((group) => anyOf(group.map(of)))];
}

/** The keywords that say something about the shape of a value. */
const describing = [
  ...(['type', 'enum', 'number', 'default', 'binary', 'required', 'properties'] as const),
  ...(['additionalProperties', 'patternProperties', 'items', 'prefixItems'] as const),
];

/** Returns the shape of a schema without the schemas that it combines. */
function ownShape(schema: Schema): Shape {
  if (!describing.some((keyword) => schema[keyword] !== undefined)) return anything;
  const { type, enum: listed, number, binary = false, default: value, required = [] } = schema;
  const { properties = {}, patternProperties = {}, prefixItems = [] } = schema;
  const texts = listed?.map((item) => JSON.stringify(item));
  const outside = {
    types: type ?? (listed && [...new Set(listed.map(typeOf))]),
    number,
    binary,
    default: value,
    accepts: (one: unknown) => isOfType(one, type) && texts?.includes(JSON.stringify(one)) !== false,
  };
  return createShape(outside, () => ({
    properties: Object.fromEntries(
      Object.entries(properties).map(([name, property]) => [name, propertyShape(property)]),
    ),
    required,
    additional: rest(schema.additionalProperties, Object.values(patternProperties)),
    items: rest(schema.items, prefixItems) || undefined,
  }));
}

/** All parts that are not named: those of the schema of the rest, and others. */
function rest(schema: Schema | undefined, others: readonly Schema[]): Shape | false | undefined {
  const isClosed = schema !== undefined && isNothing(schema);
  if (others.length === 0) return isClosed ? false : schema && shapeOf(schema);
  return anyOf([...others, ...(isClosed ? [] : [schema ?? {}])].map(shapeOf));
}

/** The shape of a value that has all of these shapes. */
function allOf(shapesOfValue: readonly Shape[]): Shape {
  const parts = [...new Set(shapesOfValue)].filter((part) => part !== anything);
  if (parts.includes(absent)) return absent;
  if (parts.length < 2) return parts[0] ?? anything;
  const types = parts.flatMap((part) => (part.types === undefined ? [] : [part.types]));
  const forms = parts.map(({ number }) => number);
  const outside = {
    types: types.length === 0 ? undefined : types.reduce(commonTypes),
    number: forms.find(isBig) ?? forms.find((form) => form !== undefined),
    binary: parts.some(({ binary }) => binary),
    default: parts.find((part) => part.default !== undefined)?.default,
    accepts: (value: unknown) => parts.every(({ accepts }) => accepts(value)),
  };
  const all = (inside: readonly Shape['additional'][]): Shape['additional'] => {
    const described = inside.filter((one) => one !== undefined);
    if (described.includes(false)) return false;
    return described.length === 0 ? undefined : allOf(described as Shape[]);
  };
  const find = () => {
    const properties = propertiesOf(parts, (name) => allOf(parts.map((part) => propertyOf(part, name))));
    const required = new Set(parts.flatMap((part) => part.required));
    return {
      properties,
      required: [...required].filter((name) => properties[name] !== absent),
      additional: all(parts.map(({ additional }) => additional)),
      items: all(parts.map(({ items }) => items)) || undefined,
    };
  };
  return createShape(outside, find, parts);
}

/** The shape of a value that has one of these shapes. */
function anyOf(alternatives: readonly Shape[]): Shape {
  const parts = [...new Set(alternatives)].filter(({ types }) => types?.length !== 0);
  if (parts.length < 2) return parts[0] ?? absent;
  const [first] = parts;
  const types = parts.map((part) => part.types);
  const forms = [...new Set(parts.flatMap(({ number }) => number ?? []))];
  const isSame = parts.every((part) => JSON.stringify(part.default) === JSON.stringify(first!.default));
  const outside = {
    types: types.includes(undefined) ? undefined : [...new Set(types.flat() as TypeName[])],
    number: forms.length > 1 && forms.some(isBig) ? undefined : forms[0],
    binary: parts.some(({ binary }) => binary),
    default: isSame ? first!.default : undefined,
    accepts: (value: unknown) => parts.some(({ accepts }) => accepts(value)),
  };
  const either = (inside: readonly Shape['additional'][]): Shape['additional'] => {
    const allowed = inside.filter((one) => one !== false);
    if (allowed.length === 0) return inside[0];
    return allowed.includes(undefined) ? undefined : anyOf(allowed as Shape[]);
  };
  const having = (type: TypeName) => parts.filter((part) => part.types?.includes(type) ?? true);
  const find = () => {
    const objects = having('object');
    const inObjects = (name: string) =>
      anyOf(
        objects
          .filter((one) => one.additional !== false || Object.hasOwn(one.properties, name))
          .map((one) => propertyOf(one, name)),
      );
    return {
      properties: propertiesOf(objects, inObjects),
      required: first!.required.filter((name) => parts.every(({ required }) => required.includes(name))),
      additional: either(objects.map(({ additional }) => additional)),
      items: either(having('array').map(({ items }) => items)) || undefined,
    };
  };
  return createShape(outside, find);
}

function propertiesOf(parts: readonly Shape[], find: (name: string) => Shape): Record<string, Shape> {
  const names = new Set(parts.flatMap(({ properties }) => Object.keys(properties)));
  return Object.fromEntries([...names].map((name) => [name, find(name)]));
}

function commonTypes(a: readonly TypeName[], b: readonly TypeName[]): readonly TypeName[] {
  const has = (types: readonly TypeName[], type: TypeName) =>
    types.includes(type) || (type === 'integer' && types.includes('number'));
  return [...new Set([...a, ...b])].filter((type) => has(a, type) && has(b, type));
}

/** The shape of a property of an object that has this shape. */
export function propertyOf({ properties, additional }: Shape, name: string): Shape {
  return (Object.hasOwn(properties, name) ? properties[name] : additional) || anything;
}
