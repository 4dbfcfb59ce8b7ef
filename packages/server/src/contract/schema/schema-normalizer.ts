// Turns the schemas of OpenAPI 3.0 and 3.1 into one normal form, without references.
import type { ContractNode } from '../document/contract-node.js';
import { stepsOf } from '../document/finding.js';
import { onlyDescribes, readKeywords } from './schema-keywords.js';
import { isBig, typeNames, type NumberForm, type TypeName } from './json-types.js';
import {
  allSchemas,
  anySchema,
  combiningKeywords,
  nothing,
  partsOf,
  whyHidden,
  type MutableSchema,
  type Sample,
  type Schema,
  type Use,
} from './schema.js';
import { absent, propertyShape, shapeOf, type Shape } from './shape.js';

/** A schema, where it is in the contract, and its use. */
interface Entry {
  readonly node: ContractNode;
  readonly use: Use;
  readonly schema: MutableSchema;
}

/** Normalizes the schemas of one document. A schema that several places refer to is normalized once for each use. */
export class Schemas {
  readonly #is30: boolean;
  readonly #known: Readonly<Record<Use, Map<unknown, Schema>>> = {
    text: new Map(),
    request: new Map(),
    response: new Map(),
  };
  /** Schemas that are still empty when they are added: each may contain itself. */
  #entries: Entry[] = [];
  readonly #nodes = new Map<Schema, ContractNode>();
  /** Schemas that have been searched for themselves. */
  readonly #searched = new Set<Schema>();
  /** The defaults of requests, those of a schema or of a part of it. */
  readonly defaults: Sample[] = [];
  /** The schemas whose defaults are not filled in, at least not everywhere. */
  readonly unfilled = new Set<Schema>();

  /** @param is30 - Whether the document is of OpenAPI 3.0; otherwise it is of 3.1. */
  constructor(is30: boolean) {
    this.#is30 = is30;
  }

  /** Returns the normal form of a schema. */
  normalize(node: ContractNode, use: Use): Schema {
    const schema = this.#find(node, use);
    for (const entry of this.#entries) this.#read(entry);
    for (const entry of this.#entries) link(entry);
    for (const entry of this.#entries) this.#refuseCycles(entry.schema, []);
    for (const entry of this.#entries) this.#check(entry);
    this.#entries = [];
    return schema;
  }

  /** Returns the normal form of a schema that has been normalized; undefined if it has no such use. */
  known(value: unknown, use: Use): Schema | undefined {
    return this.#known[use].get(value);
  }

  /** Returns the normal form of a schema, or of what it refers to, which may not have been read yet. */
  #find(given: ContractNode, use: Use): Schema {
    const known = this.#known[use];
    const references = new Set<unknown>();
    let node = given;
    while (!known.has(node.value) && this.#isReference(node)) {
      // References that only refer to each other lead to nothing.
      const next = references.has(node.value) ? node.target('schemas') : node.follow('schemas');
      references.add(node.value);
      node = next;
    }
    const schema = known.get(node.value) ?? this.#begin(node, use);
    for (const value of references) known.set(value, schema);
    return schema;
  }

  /** Whether a schema is nothing but a reference: OpenAPI 3.0 ignores what is next to one. */
  #isReference(node: ContractNode): boolean {
    if (!node.has('$ref')) return false;
    const siblings = node.names.filter((name) => name !== '$ref' && !onlyDescribes(name));
    if (siblings.length > 0 && this.#is30)
      node.warn(
        `OpenAPI 3.0 ignores what is next to $ref (${siblings.join(', ')})`,
        'Write the reference in allOf',
      );
    return this.#is30 || siblings.length === 0;
  }

  #begin(node: ContractNode, use: Use): Schema {
    if (node.value === true) return anySchema;
    if (node.value === false) return nothing;
    if (!node.isObject) {
      node.fault('must be a schema', 'Write an object with a type, such as { type: string }');
      return anySchema;
    }
    const schema: MutableSchema = {};
    this.#known[use].set(node.value, schema);
    this.#nodes.set(schema, node);
    this.#entries.push({ node, use, schema });
    return schema;
  }

  /** Reads a schema into its normal form. */
  #read({ node, use, schema }: Entry): void {
    const types = this.#types(node);
    const normalize = (part: ContractNode) => this.#find(part, use);
    const number = numberForm(node, types);
    Object.assign(schema, types && { type: types }, readKeywords(node, { use, types, number, normalize }));
    if (number !== undefined) schema.number = number;
    if (use === 'request' && isBinary(node)) schema.binary = true;
    const { value } = node.at('default');
    if (use !== 'response' && value !== undefined) schema.default = value;
    const [least, most] = (number === 'integer' && smallIntegers[node.scalar('format') ?? '']) || [];
    if (least !== undefined) schema.minimum = Math.max(schema.minimum ?? least, least);
    if (most !== undefined) schema.maximum = Math.min(schema.maximum ?? most, most);
    const [flag, hidden] =
      use === 'request' ? (['readOnly', 'read-only'] as const) : (['writeOnly', 'write-only'] as const);
    if (node.read(flag, 'boolean') === true && use !== 'text') schema.hidden = hidden;
    if (node.has('$ref')) schema.allOf = [normalize(node.follow('schemas')), ...(schema.allOf ?? [])];
  }

  /** Refuses a schema that contains itself other than in its properties or items; it then combines none. */
  #refuseCycles(schema: MutableSchema, outer: readonly Schema[]): void {
    if (this.#searched.has(schema)) return;
    const chain = [...outer, schema];
    const parts = partsOf(schema, combiningKeywords);
    if (parts.some((part) => chain.includes(part))) {
      this.#nodes.get(schema)?.fault('the schema contains itself', 'Refer to it in a property or in items');
      for (const keyword of combiningKeywords) Reflect.deleteProperty(schema, keyword);
    } else for (const part of parts) this.#refuseCycles(part, chain);
    this.#searched.add(schema);
  }

  #check({ node, use, schema }: Entry): void {
    checkTogether(node, schema);
    // Values that a request must not contain are not filled in.
    if (use === 'response' || whyHidden(schema) !== undefined) return;
    for (const lost of findUnfilled(schema)) {
      this.unfilled.add(lost);
      const place = (this.#nodes.get(lost) ?? node).placeOf('default');
      place.warn('it is not filled in: its schema, or another part, refuses it', 'Fill it in in the handler');
    }
    const { default: value } = shapeOf(schema);
    if (value !== undefined) this.defaults.push({ schema, value, node: node.placeOf('default') });
  }

  #types(node: ContractNode): readonly TypeName[] | undefined {
    const type = node.at('type');
    const nullable = node.at('nullable');
    const isNullable = node.read('nullable', 'boolean') === true;
    if (type.value === undefined) {
      if (isNullable && !node.has('$ref'))
        nullable.warn('nullable has no effect without a type', 'Write type next to it');
      return undefined;
    }
    const names: unknown[] = [type.value].flat();
    const wrong = names.length === 0 ? [] : names.find((name) => !typeNames.some((known) => known === name));
    if (wrong !== undefined) {
      const all = typeNames.map((name) => JSON.stringify(name));
      type.fault(`${JSON.stringify(wrong)} is not a type`, `Write one of ${all.join(', ')}`);
      return undefined;
    }
    const types = [...new Set([...names, ...(isNullable ? ['null'] : [])])] as TypeName[];
    const listed = node.at('enum');
    if (types.includes('null') && Array.isArray(listed.value) && !listed.value.includes(null))
      listed.warn('null is not in enum: it is refused', 'Add null to enum, or leave null out of the type');
    if (isNullable && !this.#is30)
      nullable.warn(
        'OpenAPI 3.1 has no nullable: it is read as in 3.0',
        `Write type: ${JSON.stringify(types)}`,
      );
    return types;
  }
}

/** Copies to a schema what it takes from those inside, when all have been read. */
function link({ node, schema }: Entry): void {
  if (node.has('discriminator')) discriminate(node, schema);
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const refused = whyHidden(property);
    if (refused !== undefined) schema.properties = { ...schema.properties, [name]: { refused } };
  }
}

/**
 * Holds each alternative to the values by which the discriminator names it, so that a value is what it says it is. An
 * alternative that has values of its own keeps them, and one without the property is left alone.
 */
function discriminate(node: ContractNode, schema: MutableSchema): void {
  const discriminator = node.at('discriminator');
  discriminator.allow('propertyName! mapping');
  const mapping = discriminator.entries('mapping').flatMap(([value, target]) => {
    const reference = discriminator.at('mapping').read(value, 'string');
    return reference === undefined ? [] : [[value, target.refer(reference)] as const];
  });
  const name = discriminator.read('propertyName', 'string');
  if (name === undefined) return;
  const hold = (part: Schema, reference: unknown): Schema => {
    if (typeof reference !== 'string') return part;
    const mapped = mapping.filter(([, target]) => target === reference).map(([value]) => value);
    const values = mapped.length > 0 ? mapped : [stepsOf(reference)?.at(-1)];
    const described = [...allSchemas(part, ['allOf'])].flatMap(({ properties = {} }) =>
      Object.hasOwn(properties, name) ? [...allSchemas(properties[name]!, ['allOf'])] : [],
    );
    const own = described.flatMap((property) => property.enum ?? []);
    const isOther = own.length > 0 && !own.some((value) => values.includes(value as string));
    if (described.length === 0 || isOther) return part;
    const property = { type: ['string'], enum: values } as const;
    return { allOf: [part], required: [name], properties: { [name]: property } };
  };
  for (const keyword of ['anyOf', 'oneOf'] as const) {
    const held = schema[keyword]?.map((part, i) => hold(part, node.at(keyword).at(i).at('$ref').value));
    if (held !== undefined) schema[keyword] = held;
  }
}

/** The ranges of integers of less than 64 bits. */
const smallIntegers: Readonly<Record<string, readonly [min: number, max: number]>> = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  uint32: [0, 2 ** 32 - 1],
};

/** Whether a text stands for bytes, as in a form; `contentEncoding` says that the text itself is sent. */
function isBinary(node: ContractNode): boolean {
  return (
    node.at('format').value === 'binary' || (node.has('contentMediaType') && !node.has('contentEncoding'))
  );
}

function numberForm(node: ContractNode, types: readonly TypeName[] | undefined): NumberForm | undefined {
  if (types?.includes('number')) return 'double';
  if (!types?.includes('integer')) return undefined;
  const format = node.at('format').value as NumberForm;
  return isBig(format) ? format : 'integer';
}

/** Reports contradictions in a schema with all the schemas that it combines. */
function checkTogether(node: ContractNode, schema: Schema): void {
  const shape = shapeOf(schema);
  checkContradictions(node, shape);
  checkRoom(node, shape);
}

/** Refuses values that two parts give different types, also in properties up to a depth. */
function checkContradictions(node: ContractNode, shape: Shape, place = '', depth = 3): void {
  const { parts } = shape;
  if (parts.length < 2) return;
  const agree = 'Let all parts of allOf, and all alternatives, agree';
  const what = place === '' ? 'a value' : place;
  const types = parts.map((part) => part.types).filter((names) => names !== undefined);
  if (shape.types?.length === 0 && types.every(({ length }) => length > 0)) {
    const listed = new Set(types.map((names) => names.join(' or ')));
    node.fault(`${what} cannot be ${[...listed].join(' and ')} at the same time`, agree);
    return;
  }
  const forms = parts.map(({ number }) => number).filter((form) => form !== undefined);
  const big = forms.find(isBig);
  if (big !== undefined && forms.some((form) => form !== big))
    node.fault(`${what} cannot have the format ${big} and be another number at the same time`, agree);
  if (depth > 0 && parts.filter((part) => part.types?.includes('object') ?? true).length > 1)
    for (const [name, property] of Object.entries(shape.properties))
      checkContradictions(node, property, place === '' ? name : `${place}.${name}`, depth - 1);
}

/** Finds properties that a part describes, and another one, which is closed, does not have. */
function checkRoom(node: ContractNode, { parts, types }: Shape): void {
  if (types?.includes('object') === false) return;
  const closed = parts.filter(({ additional }) => additional === false);
  const names = parts
    .flatMap(({ properties }) => Object.keys(properties).filter((name) => properties[name] !== absent))
    .filter((name) => closed.some(({ properties }) => !Object.hasOwn(properties, name)));
  if (names.length === 0) return;
  node.warn(
    `no object can have ${[...new Set(names)].slice(0, 5).join(', ')}: another part has no additional properties`,
    'Leave additionalProperties: false out of the parts, or write all properties in one schema',
  );
}

/** Finds the schemas whose defaults they, or others of the same value, do not allow: they are not filled in everywhere. */
function findUnfilled(schema: Schema): Schema[] {
  const own = schema.default !== undefined && shapeOf(schema).default === undefined ? [schema] : [];
  const together = [...allSchemas(schema, ['allOf', 'anyOf', 'oneOf', 'then', 'else', 'dependentSchemas'])];
  const named = together.flatMap(({ properties = {} }) => Object.entries(properties));
  const lost = named.filter(([name, property]) => {
    const value = propertyShape(property).default;
    const isRefused = ([other, part]: [string, Schema]) => other === name && !shapeOf(part).accepts(value);
    return value !== undefined && named.some(isRefused);
  });
  return [...own, ...lost.map(([, property]) => property)];
}
