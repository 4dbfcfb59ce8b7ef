// Turns the schemas of OpenAPI 3.0 and 3.1 into one normal form, without references.
import { checkKeywords, checkValues, onlyDescribes, readKeywords } from './schema-keywords.js';
import { nearest, stepsOf, type ContractNode } from '../document/contract-node.js';
import { covers } from './coverage.js';
import {
  anySchema,
  isOfRequests,
  resolve,
  nothing,
  partsOf,
  type Draft,
  type Sample,
  type Schema,
  type Use,
} from './schema.js';
import { allSchemas } from './schema-walk.js';
import { ShapeGraph, type Origin } from './shape-graph.js';
import { anything, typeNames, type NumberForm, type TypeName } from './shape.js';

/** The maximum nesting of schemas that are written in one another. */
const maxNesting = 200;

/** Names of types in other languages, and what to write instead. */
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
  [/^null$/, 'Write "null", in quotes'],
];

/** The keywords whose schemas apply to some values only, and `allOf` in them. */
const sometimes = ['allOf', 'anyOf', 'oneOf', 'if', 'then', 'else', 'dependentSchemas'] as const;

/** Normalizes the schemas of one document. A schema that several places refer to is normalized once for each use. */
export class Schemas {
  readonly #is30: boolean;
  readonly #known = mapsByUse();
  /** What stands for schemas inside themselves. */
  readonly #recursive = mapsByUse();
  /** The schemas that are being normalized. */
  readonly #open = new Set<unknown>();
  /** Schemas that something stands for, and that are normalized later. */
  readonly #postponed: (() => void)[] = [];
  #isSettling = false;
  /** How deeply schemas are nested in each one. */
  readonly #depths = new Map<Schema, number>();
  readonly #shapes = new ShapeGraph();
  /** Checks of shapes, which are known only when all schemas are. */
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

  normalize(given: ContractNode, use: Use): Schema {
    // The server sends errors of its own: what it does not support in their schemas has no effect.
    const node = use === 'error' && !given.has('$ref') ? given.quiet : given;
    if (node.value === true) return anySchema;
    if (node.value === false) return nothing;
    if (!node.isObject) {
      const type = typeNames.find((name) => name === node.value);
      const fix = type === undefined ? 'an object with a type, or leave it out' : `type: ${type} in it`;
      node.fault('must be a schema', `Write ${fix}`);
      return anySchema;
    }
    const found = this.#known[use].get(node.value);
    if (found !== undefined) return found;
    if (this.#open.has(node.value)) return this.#repeat(node, use);
    if (this.#open.size === maxNesting) {
      node.fault(`the schema is nested more than ${maxNesting} levels deep`, 'Refer to parts of it');
      return anySchema;
    }
    this.#open.add(node.value);
    const schema = node.has('$ref') ? this.#reference(node, use) : this.#inline(node, use);
    this.#open.delete(node.value);
    this.#known[use].set(node.value, schema);
    this.#depths.set(schema, 1 + Math.max(0, ...partsOf(schema).map((part) => this.#depths.get(part) ?? 0)));
    if (this.#open.size === 0 && !this.#isSettling) this.#settle();
    return schema;
  }

  /** What `normalize` has returned for a schema of the document; undefined if it has no such use. */
  known(value: unknown, use: Use): Schema | undefined {
    return this.#known[use].get(value);
  }

  /** Finishes what needs schemas to be complete. */
  #settle(): void {
    this.#isSettling = true;
    for (let next = this.#postponed.pop(); next !== undefined; next = this.#postponed.pop()) next();
    this.#shapes.settle();
    for (const check of this.#checks.splice(0)) check();
    this.#isSettling = false;
  }

  /** Stands for a schema inside itself. */
  #repeat(node: ContractNode, use: Use): Schema {
    // References that only refer to each other.
    if (node.has('$ref') && node.target('schemas').value === undefined) return anySchema;
    const known = this.#recursive[use].get(node.value);
    if (known !== undefined) return known;
    const recursive = () => this.#known[use].get(node.value)!;
    const schema: Schema = {
      recursive,
      get shape() {
        return recursive().shape;
      },
      ...(isLeftOut(node, use) && { refused: true }),
    };
    this.#recursive[use].set(node.value, schema);
    return schema;
  }

  #reference(node: ContractNode, use: Use): Schema {
    const target = this.#normalizeTarget(node, use);
    const siblings = Object.keys(node.value as object).filter(
      (name) => name !== '$ref' && !onlyDescribes(name),
    );
    if (siblings.length === 0) return target;
    if (this.#is30) {
      node.warn(
        `OpenAPI 3.0 ignores what is next to $ref (${siblings.join(', ')})`,
        'Leave that out, or write allOf with the reference, and the rest next to it, which then has an effect',
      );
      return target;
    }
    return this.#inline(node, use, target);
  }

  /** Normalizes what a reference refers to; if schemas would be nested too deeply, something stands for it. */
  #normalizeTarget(node: ContractNode, use: Use): Schema {
    const target = node.follow('schemas');
    const known = this.#known[use].get(target.value);
    const depth = this.#open.size + (known === undefined ? 0 : (this.#depths.get(known) ?? 0));
    if (depth < maxNesting / 2 || !target.isObject) return this.normalize(target, use);
    if (known === undefined) this.#postponed.push(() => this.normalize(target, use));
    return this.#repeat(target, use);
  }

  /** @param referenced - What a `$ref` next to the keywords refers to. */
  #inline(node: ContractNode, use: Use, referenced?: Schema): Schema {
    checkKeywords(node, this.#is30);
    const nullable = this.#nullable(node, use);
    if (nullable !== undefined) return nullable;
    const types = this.#types(node);
    const isArray = node.at('type').value === 'array';
    if (isArray && this.#is30) node.require('items', 'Write items with the schema of the items');
    const context = {
      use,
      is30: this.#is30,
      types,
      normalize: (part: ContractNode) => this.normalize(part, use),
    };
    const draft: Draft = {
      ...(types !== undefined && { type: types }),
      ...readKeywords(node, context),
      shape: anything,
    };
    const number = numberForm(node, types);
    if (number !== undefined) draft.number = number;
    if (use === 'request' && isBinary(node, this.#is30)) draft.binary = true;
    if (isOfRequests(use) && node.at('default').value !== undefined) draft.default = node.at('default').value;
    if (number === 'integer' && node.at('format').value === 'int32') {
      draft.minimum = Math.max(draft.minimum ?? -Infinity, -(2 ** 31));
      draft.maximum = Math.min(draft.maximum ?? Infinity, 2 ** 31 - 1);
    }
    if (use !== 'error') this.#discriminate(node, draft, use);
    if (referenced !== undefined) draft.allOf = [referenced, ...(draft.allOf ?? [])];
    if (isLeftOut(node, use) || draft.allOf?.some((part) => part.refused)) draft.refused = true;
    draft.shape = this.#shapes.shapeOf(draft, this.#originOf(node, use));
    if (use !== 'error') this.addExamples(node, draft);
    this.#checks.push(() => {
      this.#checkRequired(node, draft);
      checkEvaluation(node, draft);
      if (use !== 'error') checkAlternatives(node, draft);
      checkValues(node, draft.shape.types);
      this.#addDefault(node, draft, use);
    });
    return draft;
  }

  /**
   * Holds each alternative to the values by which the discriminator names it, so that a value is what it says it is. An
   * alternative that has values of its own keeps them, and one without the property is left alone.
   */
  #discriminate(node: ContractNode, draft: Draft, use: Use): void {
    const given = node.at('discriminator').quiet;
    const name = given.text('propertyName');
    if (name === undefined) return;
    const mapping = given.entries('mapping').map(([value, target]) => {
      const text = String(target.value);
      return [value, /[#/.]/.test(text) ? text : `#/components/schemas/${text}`] as const;
    });
    const origin = this.#originOf(node, use);
    const held = (one: Schema, alternative: ContractNode): Schema => {
      const reference = alternative.at('$ref').value;
      if (typeof reference !== 'string') return one;
      const mapped = mapping.filter(([, target]) => target === reference).map(([value]) => value);
      const values = mapped.length > 0 ? mapped : [stepsOf(reference)?.at(-1)];
      const own = valuesOf(alternative.quiet, name);
      if (own === undefined || (own.length > 0 && !own.some((value) => values.includes(value as string))))
        return one;
      const property: Draft = { type: ['string'], enum: values, shape: anything };
      property.shape = this.#shapes.shapeOf(property, origin);
      const schema: Draft = {
        allOf: [one],
        required: [name],
        properties: { [name]: property },
        shape: anything,
      };
      schema.shape = this.#shapes.shapeOf(schema, origin);
      return schema;
    };
    for (const keyword of ['anyOf', 'oneOf'] as const) {
      const all = draft[keyword]?.map((one, i) => held(one, node.at(keyword).at(i)));
      if (all !== undefined) draft[keyword] = all;
    }
  }

  /** Reads anyOf or oneOf of a schema and null, as generators write for a nullable value, as if null was a type of it. */
  #nullable(node: ContractNode, use: Use): Schema | undefined {
    const isNull = (part: ContractNode) => part.at('type').value === 'null';
    const keyword = ['anyOf', 'oneOf'].find((name) => {
      const parts = node.list(name);
      return parts.length === 2 && parts.filter(isNull).length === 1;
    });
    if (keyword === undefined) return undefined;
    const schema = this.normalize(
      node.list(keyword).find((part) => !isNull(part))!,
      use,
    );
    const isAlone = Object.keys(node.value as object).every(
      (name) => [keyword, 'default', 'readOnly', 'writeOnly'].includes(name) || onlyDescribes(name),
    );
    const { allOf, anyOf, oneOf, not, if: condition, type: types } = schema;
    if (!isAlone || types === undefined || (allOf ?? anyOf ?? oneOf ?? not ?? condition)) return undefined;
    const draft: Draft = {
      ...schema,
      type: [...new Set<TypeName>([...types, 'null'])],
      ...(schema.enum !== undefined && { enum: [...new Set([...schema.enum, null])] }),
      ...(isLeftOut(node, use) && { refused: true }),
      ...(isOfRequests(use) && node.has('default') && { default: node.at('default').value }),
    };
    checkValues(node, draft.type);
    this.#checks.push(() => {
      this.#addDefault(node, draft, use);
    });
    draft.shape = this.#shapes.shapeOf(draft, this.#originOf(node, use));
    return draft;
  }

  #originOf(node: ContractNode, use: Use): Origin {
    return {
      use,
      report: (message, fix) => {
        node.fault(message, fix);
      },
      loseDefault: (schema) => {
        const place = node.has('default') ? node.at('default') : node;
        place.warn('it is not filled in: not every alternative has it', 'Fill it in in the handler');
        this.unfilled.add(schema);
      },
    };
  }

  #addDefault(node: ContractNode, schema: Schema, use: Use): void {
    // What a request must not contain is not filled in.
    if (!isOfRequests(use) || schema.refused) return;
    const place = node.has('default') ? node.at('default') : node;
    if (place.value === null && schema.shape.types?.includes('null') === false) {
      place.warn('null is not a value of the schema: it is not filled in', 'Leave it out, or allow null');
    }
    if (schema.shape.default === undefined) return;
    this.defaults.push(sampleOf(schema, place, schema.shape.default));
  }

  /** Remembers the examples that are next to a schema, or in it. */
  addExamples(owner: ContractNode, schema: Schema): void {
    // Those of a schema need to fit it for one use only.
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
    if (node.flag('nullable') !== true || types.includes('null')) return types;
    if (!this.#is30)
      node
        .at('nullable')
        .warn('OpenAPI 3.1 has no nullable: null is allowed', `Write type: [${types.join(', ')}, "null"]`);
    return [...types, 'null'];
  }

  #checkRequired(node: ContractNode, { shape, allOf }: Schema): void {
    const names = Object.keys(shape.properties);
    const missing = shape.required.find((name) => !names.includes(name));
    if (missing === undefined) return;
    const near = nearest(missing, names);
    const at = allOf === undefined ? node.at('required') : node;
    const message = `requires ${missing}, which is not one of its properties`;
    const fix =
      near === undefined
        ? 'Add the property, or do not require it'
        : `Write ${near}, which requests must then have, or add the property`;
    if (shape.additional === false) at.fault(message, fix);
    else if (near !== undefined) at.warn(message, fix);
  }
}

/** Refuses what Ajv gets wrong: items that have been evaluated by `contains`, or only in some cases. */
function checkEvaluation(node: ContractNode, schema: Schema): void {
  if (schema.unevaluatedItems === undefined) return;
  const sure = allSchemas(schema, ['allOf']);
  const others = new Set<Schema>();
  for (const one of [sure, others])
    for (const outer of one) for (const part of partsOf(outer, sometimes)) others.add(resolve(part));
  const describesItems = (one: Schema) => one.items ?? one.prefixItems ?? one.unevaluatedItems;
  const isWrong =
    [...sure, ...others].some(({ contains }) => contains) ||
    [...others].some((one) => !sure.has(one) && describesItems(one));
  if (isWrong) {
    const fix = 'Describe items only by items and prefixItems, and not in alternatives or conditions';
    node.at('unevaluatedItems').fault('unevaluatedItems is not supported with these schemas', fix);
  }
}

/** Finds alternatives whose values would all fit another one, too; if that is so for each, no value is valid. */
function checkAlternatives(node: ContractNode, { oneOf = [] }: Schema): void {
  const others = oneOf.map((one, i) => oneOf.findIndex((wide, j) => i !== j && covers(wide, one)));
  const fix =
    'Write anyOf, or let each have what the other one refuses, such as a property with another value';
  if (oneOf.length > 0 && !others.includes(-1))
    node.at('oneOf').fault('whatever fits an alternative also fits another one, and only one may fit', fix);
  for (const [i, other] of others.entries())
    if (other >= 0)
      node
        .at('oneOf')
        .at(i)
        .warn(
          `no value can be of it: what fits it also fits alternative ${other + 1}, and only one may fit`,
          fix,
        );
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

function mapsByUse(): Record<Use, Map<unknown, Schema>> {
  return { text: new Map(), request: new Map(), response: new Map(), error: new Map() };
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
