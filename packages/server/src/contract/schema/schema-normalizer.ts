// Turns the schemas of OpenAPI 3.0 and 3.1 into one normal form, without references.
import type { ContractNode } from '../document/contract-node.js';
import { stepsOf } from '../document/finding.js';
import { isBig, typeNames, type NumberForm, type TypeName } from './json-types.js';
import { checkTogether, findUnfilled } from './schema-checks.js';
import { checkKeywords, onlyDescribes, readDiscriminator, readKeywords } from './schema-keywords.js';
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
import { shapeOf } from './shape.js';

/** Normalizes the schemas of one document. A schema that several places refer to is normalized once for each use. */
export class Schemas {
  readonly #is30: boolean;
  readonly #known: Readonly<Record<Use, Map<unknown, Schema>>> = {
    text: new Map(),
    request: new Map(),
    response: new Map(),
  };
  /** Reads of schemas that are still empty: each may contain itself. */
  readonly #reads: (() => void)[] = [];
  /** Functions that copy to a schema what it takes from those inside, to be called when all have been read. */
  readonly #links: (() => void)[] = [];
  /** Checks of schemas, to be run after that. */
  readonly #checks: { readonly schema: MutableSchema; readonly check: () => void }[] = [];
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
    for (let read = this.#reads.pop(); read !== undefined; read = this.#reads.pop()) read();
    for (const link of this.#links.splice(0)) link();
    const checks = this.#checks.splice(0);
    for (const { schema: part } of checks) this.#refuseCycles(part, new Set());
    for (const { check } of checks) check();
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
        'Leave that out, or write allOf with the reference, and the rest next to it, which then has an effect',
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
    this.#reads.push(() => {
      this.#read(node, use, schema);
    });
    return schema;
  }

  /** Reads a schema into its normal form. */
  #read(node: ContractNode, use: Use, schema: MutableSchema): void {
    checkKeywords(node);
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
    const discriminator = readDiscriminator(node);
    this.#links.push(() => {
      if (discriminator?.name !== undefined)
        discriminate(node, schema, discriminator.name, discriminator.mapping);
      for (const [name, property] of Object.entries(schema.properties ?? {})) {
        const refused = whyHidden(property);
        if (refused !== undefined) schema.properties = { ...schema.properties, [name]: { refused } };
      }
    });
    const check = () => {
      checkTogether(node, schema);
      if (use !== 'response') this.#addDefault(node, schema);
    };
    this.#checks.push({ schema, check });
  }

  /** Refuses a schema that contains itself other than in its properties or items; it then combines none. */
  #refuseCycles(schema: MutableSchema, outer: Set<Schema>): void {
    if (this.#searched.has(schema)) return;
    outer.add(schema);
    for (const part of partsOf(schema, combiningKeywords)) {
      if (!outer.has(part)) this.#refuseCycles(part, outer);
      else {
        this.#nodes
          .get(schema)
          ?.fault('the schema contains itself', 'Refer to it only in a property or in items');
        for (const keyword of combiningKeywords) Reflect.deleteProperty(schema, keyword);
        break;
      }
    }
    outer.delete(schema);
    this.#searched.add(schema);
  }

  #addDefault(node: ContractNode, schema: Schema): void {
    // Values that a request must not contain are not filled in.
    if (whyHidden(schema) !== undefined) return;
    for (const lost of findUnfilled(schema)) {
      this.unfilled.add(lost);
      (this.#nodes.get(lost) ?? node)
        .placeOf('default')
        .warn(
          'it is not filled in: its schema, or another one of the same value, does not allow it',
          'Fill it in in the handler',
        );
    }
    const { default: value } = shapeOf(schema);
    const place = node.placeOf('default');
    if (value !== undefined)
      this.defaults.push({ schema, value, find: (message, fix) => place.find(message, fix) });
  }

  #types(node: ContractNode): readonly TypeName[] | undefined {
    const type = node.at('type');
    const isNullable = node.read('nullable', 'boolean') === true;
    if (type.value === undefined) {
      if (isNullable && !node.has('$ref'))
        node.at('nullable').warn('nullable has no effect without a type', 'Write type next to it');
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
    const listed = node.at('enum').value;
    if (types.includes('null') && Array.isArray(listed) && !listed.includes(null))
      node
        .at('enum')
        .warn('null is not in enum: it is refused', 'Add null to enum, or leave null out of the type');
    if (isNullable && !this.#is30)
      node
        .at('nullable')
        .warn('OpenAPI 3.1 has no nullable: it is read as in 3.0', `Write type: ${JSON.stringify(types)}`);
    return types;
  }
}

/**
 * Holds each alternative to the values by which the discriminator names it, so that a value is what it says it is. An
 * alternative that has values of its own keeps them, and one without the property is left alone.
 */
function discriminate(
  node: ContractNode,
  schema: MutableSchema,
  name: string,
  mapping: readonly (readonly [value: string, reference: string])[],
): void {
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
