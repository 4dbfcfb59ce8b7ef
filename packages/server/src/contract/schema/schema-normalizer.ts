// Turns the schemas of OpenAPI 3.0 and 3.1 into one normal form, without references.
import { checkTogether, findUnfilled } from './schema-checks.js';
import { checkKeywords, checkValues, onlyDescribes, readKeywords } from './schema-keywords.js';
import { stepsOf } from '../document/references.js';
import type { ContractNode } from '../document/contract-node.js';
import {
  anySchema,
  combiningKeywords,
  isOfRequests,
  nothing,
  partsOf,
  type MutableSchema,
  type Sample,
  type Schema,
  type Use,
} from './schema.js';
import { typeNames, type NumberForm, type TypeName } from './json-types.js';
import { shapeOf } from './shape.js';

/** The maximum nesting of schemas that are written in one another. */
const maxNesting = 200;
/** The nesting from which the targets of references are read later, since references may lead to any depth. */
const maxReferring = 100;

/** Names of types in other languages, with corrections. */
const slips: readonly [RegExp, fix: string][] = [
  [/^(int(eger)?(32|64)?|long)$/i, 'Write integer'],
  [/^(float|double|decimal|num)$/i, 'Write number'],
  [/^bool(ean)?$/i, 'Write boolean'],
  [/^(str|text|char|varchar|string)$/i, 'Write string'],
  [/^(date-?time|timestamp)$/i, 'Write type: string and format: date-time'],
  [/^(date|time|uuid|email|uri|password)$/i, 'Write type: string, and this as its format'],
  [/^(file|binary|blob)$/i, 'Write type: string and format: binary'],
  [/^(list|set)$/i, 'Write array, and the schema of its items in items'],
  [/^(map|dict|hash|json)$/i, 'Write object'],
  [/^any$/i, 'Leave it out: a schema without a type allows every value'],
  [/^null$/, 'Write "null" in quotes in OpenAPI 3.1, and nullable: true next to the type in 3.0'],
];

/** The maximum nesting of schemas that are combined in one another. */
const maxCombined = 100;

/** Normalizes the schemas of one document. A schema that several places refer to is normalized once for each use. */
export class Schemas {
  readonly #is30: boolean;
  readonly #known: Readonly<Record<Use, Map<unknown, Schema>>> = {
    text: new Map(),
    request: new Map(),
    response: new Map(),
    error: new Map(),
  };
  /** The number of schemas that are being read, each inside the one before. */
  #nesting = 0;
  /** Deferred reads of schemas. */
  readonly #unread: (() => void)[] = [];
  /** Where the schemas are written. */
  readonly #nodes = new Map<Schema, ContractNode>();
  /** Schemas whose combinations have not been checked yet. */
  readonly #uncombined: MutableSchema[] = [];
  /** The depth of combined schemas in each schema. */
  readonly #combined = new Map<Schema, number>();
  /** Checks of combined schemas, which run when all schemas have been read. */
  readonly #checks: (() => void)[] = [];
  /** The defaults of requests, those of a schema or of a part of it. */
  readonly defaults: Sample[] = [];
  readonly examples: Sample[] = [];
  readonly #withExamples = new Set<object>();
  /** The schemas whose defaults are not filled in, at least not everywhere. */
  readonly unfilled = new Set<Schema>();

  /** @param is30 - Whether the document is of OpenAPI 3.0; otherwise it is of 3.1. */
  constructor(is30: boolean) {
    this.#is30 = is30;
  }

  /** Returns the normal form of a schema. */
  normalize(node: ContractNode, use: Use): Schema {
    const schema = this.#find(node, use);
    for (let read = this.#unread.pop(); read !== undefined; read = this.#unread.pop()) read();
    for (const one of this.#uncombined.splice(0)) this.#checkCombined(one, new Set());
    for (const check of this.#checks.splice(0)) check();
    return schema;
  }

  /**
   * Refuses a schema that contains itself other than in its properties or items; it then combines none.
   * @returns The depth of combined schemas.
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
      this.#nodes.get(schema)?.fault(message, 'Refer to it only in a property or in items');
      for (const keyword of combiningKeywords) Reflect.deleteProperty(schema, keyword);
      depth = 0;
    }
    this.#combined.set(schema, depth);
    return depth;
  }

  /** Returns the normal form of a schema that has been normalized; undefined if it has no such use. */
  known(value: unknown, use: Use): Schema | undefined {
    return this.#known[use].get(value);
  }

  /**
   * Returns the normal form of a schema, or of what it refers to. It is empty as long as it is being read, since a schema
   * may contain itself.
   */
  #find(given: ContractNode, use: Use, isReferred = false): Schema {
    const known = this.#known[use];
    const references = new Set<unknown>();
    let node = given;
    while (!known.has(node.value) && this.#isReference(node)) {
      // References that only refer to each other lead to nothing.
      const next = references.has(node.value) ? node.target('schemas') : node.follow('schemas');
      references.add(node.value);
      node = next;
    }
    const schema = known.get(node.value) ?? this.#begin(node, use, isReferred || node !== given);
    for (const value of references) known.set(value, schema);
    return schema;
  }

  /** Whether a schema is nothing but a reference: OpenAPI 3.0 ignores what is next to one. */
  #isReference(node: ContractNode): boolean {
    if (!node.has('$ref')) return false;
    const siblings = Object.keys(node.value as object).filter(
      (name) => name !== '$ref' && !onlyDescribes(name),
    );
    if (siblings.length > 0 && this.#is30)
      node.warn(
        `OpenAPI 3.0 ignores what is next to $ref (${siblings.join(', ')})`,
        'Leave that out, or write allOf with the reference, and the rest next to it, which then has an effect',
      );
    return this.#is30 || siblings.length === 0;
  }

  #begin(given: ContractNode, use: Use, isReferred: boolean): Schema {
    // The server sends its own errors, so what it does not support in their schemas has no effect.
    const node = use === 'error' && !given.has('$ref') ? given.quiet : given;
    if (node.value === true) return anySchema;
    if (node.value === false) return nothing;
    if (!node.isObject) {
      const type = typeNames.find((name) => name === node.value);
      const fix = type === undefined ? 'an object with a type, or leave it out' : `type: ${type} in it`;
      node.fault('must be a schema', `Write ${fix}`);
      return anySchema;
    }
    if (this.#nesting === maxNesting) {
      node.fault(`the schema is nested more than ${maxNesting} levels deep`, 'Refer to parts of it');
      return anySchema;
    }
    const schema: MutableSchema = isLeftOut(node, use) ? { refused: true } : {};
    this.#known[use].set(node.value, schema);
    this.#nodes.set(schema, node);
    this.#uncombined.push(schema);
    const read = () => {
      this.#nesting += 1;
      this.#read(node, use, schema);
      this.#nesting -= 1;
    };
    if (isReferred && this.#nesting >= maxReferring) this.#unread.push(read);
    else read();
    return schema;
  }

  /** Reads a schema into its normal form. */
  #read(node: ContractNode, use: Use, schema: MutableSchema): void {
    checkKeywords(node, this.#is30);
    if (this.#readNullable(node, use, schema)) return;
    const types = this.#types(node);
    const isArray = node.at('type').value === 'array';
    if (isArray && this.#is30 && !node.has('items'))
      node.warn('items is missing: they may be anything', 'Write items with the schema of the items');
    const context = {
      use,
      is30: this.#is30,
      types,
      normalize: (part: ContractNode) => this.#find(part, use),
    };
    const referred = node.has('$ref') ? [this.#find(node.follow('schemas'), use, true)] : [];
    Object.assign(schema, { ...(types !== undefined && { type: types }), ...readKeywords(node, context) });
    const number = numberForm(node, types);
    if (number !== undefined) schema.number = number;
    if (use === 'request' && isBinary(node, this.#is30)) schema.binary = true;
    if (isOfRequests(use) && node.at('default').value !== undefined)
      schema.default = node.at('default').value;
    if (number === 'integer' && node.at('format').value === 'int32') {
      schema.minimum = Math.max(schema.minimum ?? -Infinity, -(2 ** 31));
      schema.maximum = Math.min(schema.maximum ?? Infinity, 2 ** 31 - 1);
    }
    if (use !== 'error') this.#discriminate(node, schema);
    if (referred.length > 0) schema.allOf = [...referred, ...(schema.allOf ?? [])];
    if (schema.allOf?.some((part) => part.refused)) schema.refused = true;
    if (use !== 'error') this.addExamples(node, schema);
    this.#checks.push(() => {
      checkTogether(node, schema);
      checkValues(node, shapeOf(schema).types);
      this.#addDefault(node, schema, use);
    });
  }

  /**
   * Holds each alternative to the values by which the discriminator names it, so that a value is what it says it is. An
   * alternative that has values of its own keeps them, and one without the property is left alone.
   */
  #discriminate(node: ContractNode, draft: MutableSchema): void {
    const given = node.at('discriminator').quiet;
    const name = given.text('propertyName');
    if (name === undefined) return;
    const mapping = given.entries('mapping').map(([value, target]) => {
      const text = String(target.value);
      return [value, /[#/.]/.test(text) ? text : `#/components/schemas/${text}`] as const;
    });
    const held = (one: Schema, alternative: ContractNode): Schema => {
      const reference = alternative.at('$ref').value;
      if (typeof reference !== 'string') return one;
      const mapped = mapping.filter(([, target]) => target === reference).map(([value]) => value);
      const values = mapped.length > 0 ? mapped : [stepsOf(reference)?.at(-1)];
      const own = valuesOf(alternative.quiet, name);
      if (own === undefined || (own.length > 0 && !own.some((value) => values.includes(value as string))))
        return one;
      const property = { type: ['string'], enum: values } as const;
      return { allOf: [one], required: [name], properties: { [name]: property } };
    };
    for (const keyword of ['anyOf', 'oneOf'] as const) {
      const all = draft[keyword]?.map((one, i) => held(one, node.at(keyword).at(i)));
      if (all !== undefined) draft[keyword] = all;
    }
  }

  /**
   * Reads anyOf or oneOf of a schema and null, as generators write for a nullable value, as if null was a type of it.
   * @returns Whether the schema is one.
   */
  #readNullable(node: ContractNode, use: Use, schema: MutableSchema): boolean {
    const isNull = (part: ContractNode) => part.at('type').value === 'null';
    const keyword = ['anyOf', 'oneOf'].find((name) => {
      const parts = node.list(name);
      return parts.length === 2 && parts.filter(isNull).length === 1;
    });
    if (keyword === undefined) return false;
    const other = this.#find(
      node.list(keyword).find((part) => !isNull(part))!,
      use,
    );
    const isAlone = Object.keys(node.value as object).every(
      (name) => [keyword, 'default', 'readOnly', 'writeOnly'].includes(name) || onlyDescribes(name),
    );
    const { allOf, anyOf, oneOf, not, if: condition, type: types } = other;
    if (!isAlone || types === undefined || (allOf ?? anyOf ?? oneOf ?? not ?? condition)) return false;
    Object.assign(schema, other, {
      type: [...new Set<TypeName>([...types, 'null'])],
      ...(other.enum !== undefined && { enum: [...new Set([...other.enum, null])] }),
      ...(isOfRequests(use) && node.has('default') && { default: node.at('default').value }),
    });
    checkValues(node, schema.type);
    this.#checks.push(() => {
      this.#addDefault(node, schema, use);
    });
    return true;
  }

  #addDefault(node: ContractNode, schema: Schema, use: Use): void {
    // Values that a request must not contain are not filled in.
    if (!isOfRequests(use) || schema.refused) return;
    for (const lost of findUnfilled(schema)) this.#loseDefault(lost, node);
    const place = node.has('default') ? node.at('default') : node;
    const { default: value } = shapeOf(schema);
    if (value !== undefined) this.defaults.push(sampleOf(schema, place, value));
  }

  #loseDefault(schema: Schema, outer: ContractNode): void {
    if (this.unfilled.has(schema)) return;
    this.unfilled.add(schema);
    const node = this.#nodes.get(schema) ?? outer;
    (node.has('default') ? node.at('default') : node).warn(
      'it is not filled in: its schema, or another one of the same value, does not allow it',
      'Fill it in in the handler',
    );
  }

  /** Remembers the examples that are next to a schema, or in it. */
  addExamples(owner: ContractNode, schema: Schema): void {
    // The examples of a schema need to match it for one use only.
    if (typeof owner.value !== 'object' || owner.value === null || this.#withExamples.has(owner.value))
      return;
    this.#withExamples.add(owner.value);
    const all = owner.quiet.at('examples');
    const named = all.isObject ? owner.quiet.entries('examples') : [];
    const found = [
      owner.at('example'),
      ...(Array.isArray(all.value) ? owner.list('examples') : []),
      ...named.map(([, example]) => example.target('examples').at('value')),
    ];
    for (const one of found) if (one.value !== undefined) this.examples.push(sampleOf(schema, one));
  }

  #types(node: ContractNode): readonly TypeName[] | undefined {
    const type = node.at('type');
    if (type.value === undefined) {
      const isVain = node.flag('nullable') === true && !node.has('$ref');
      if (isVain) node.at('nullable').warn('nullable has no effect without a type', 'Write type next to it');
      return undefined;
    }
    const isList = Array.isArray(type.value);
    if (isList && this.#is30) {
      type.fault(
        'OpenAPI 3.0 has one type',
        'Write one type, with nullable: true for null, or use openapi: 3.1.0',
      );
    }
    const names: unknown[] = [type.value].flat();
    const wrong = names.find((name) => !typeNames.some((known) => known === name));
    if (wrong !== undefined || names.length === 0) {
      type.fault(
        `${JSON.stringify(names.length === 0 ? [] : wrong)} is not a type`,
        slips.find(([slip]) => slip.test(String(wrong)))?.[1] ??
          `Write one of ${typeNames.slice(1).join(', ')}`,
      );
      return undefined;
    }
    const types = [...new Set(names)] as TypeName[];
    const listed = node.at('enum').value;
    const lacksNull = Array.isArray(listed) && listed.length > 0 && !listed.includes(null);
    const isNullable = node.flag('nullable') === true;
    if (lacksNull && (types.includes('null') || (isNullable && this.#is30)))
      node
        .at('enum')
        .warn('null is not in enum: it is refused', 'Add null to enum, or leave null out of the type');
    if (!isNullable || types.includes('null')) return types;
    if (!this.#is30)
      node
        .at('nullable')
        .warn(
          `OpenAPI 3.1 has no nullable${lacksNull ? ', and null is not in enum: it is refused' : ': null is allowed'}`,
          `Write type: [${types.join(', ')}, "null"]${lacksNull ? ', and add null to enum' : ''}`,
        );
    return [...types, 'null'];
  }
}

/** The values that a schema allows for a property: none if it names none, and undefined if it has no such property. */
function valuesOf(node: ContractNode, name: string, known = new Set<unknown>()): unknown[] | undefined {
  const schema = node.target('schemas');
  if (known.has(schema.value)) return undefined;
  known.add(schema.value);
  const property = schema.at('properties').at(name).target('schemas');
  const inParts = schema.list('allOf').map((part) => valuesOf(part, name, known));
  const own = property.has('const') ? [property.at('const').value] : property.at('enum').value;
  const all = [...(property.isObject ? [Array.isArray(own) ? own : []] : []), ...inParts];
  const found = all.filter((values) => values !== undefined);
  return found.length === 0 ? undefined : found.flat();
}

function sampleOf(schema: Schema, place: ContractNode, value = place.value): Sample {
  return { schema, value, find: (message, fix) => place.find(message, fix) };
}

/** Whether a property must not be in a request (`readOnly`) or in a response (`writeOnly`). */
function isLeftOut(node: ContractNode, use: Use): boolean {
  return use !== 'text' && node.flag(use === 'request' ? 'readOnly' : 'writeOnly') === true;
}

/** Whether a text stands for bytes, as in a form. In 3.1, `contentEncoding` says that the text itself is sent. */
function isBinary(node: ContractNode, is30: boolean): boolean {
  if (node.at('format').value === 'binary') return true;
  return !is30 && node.has('contentMediaType') && !node.has('contentEncoding');
}

function numberForm(node: ContractNode, types: readonly TypeName[] | undefined): NumberForm | undefined {
  if (types?.includes('number')) return 'double';
  if (!types?.includes('integer')) return undefined;
  return node.at('format').value === 'int64' ? 'int64' : 'integer';
}
