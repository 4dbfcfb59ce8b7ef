// Rewrites schemas of the normal form for Ajv.
import type { AnySchemaObject } from 'ajv';
import {
  combiningKeywords,
  isNothing,
  mapSchemas,
  numericKeywords,
  partsOf,
  type Schema,
} from '../../../contract/schema/schema.js';
import { idOf } from '../../../contract/schema/alternatives.js';
import { allSchemas } from '../../../contract/schema/schema-walk.js';
import type { TypeName } from '../../../contract/schema/shape.js';
import { weigh } from './validation-effort.js';
import type { NumericRule, ValueSource } from './numeric-keyword.js';

/** The keywords that Ajv gets as they are. */
const plainKeywords = [
  ...(['enum', 'format', 'pattern', 'dependentRequired'] as const),
  ...(['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'] as const),
];

/** The value of the keyword `bytes`: how many there may be. */
export type BytesRule = Pick<Schema, 'minLength' | 'maxLength'>;

/** A schema with more schemas inside is written once, and referred to: then the effort grows with the contract only. */
const maxInline = 40;
/** How many schemas are written for each of the contexts that they are in. */
const maxContexts = 10_000;

/** How schemas are rewritten. */
export interface RewriteOptions {
  readonly source: ValueSource;
  /** Whether the effort of checks is counted. */
  readonly isCounted?: boolean;
  /** Whether validation goes on after the first fault. */
  readonly allErrors: boolean;
  /** Whether responses are checked; otherwise, requests. */
  readonly isResponse?: boolean;
  /** Whether examples are checked, which may have what only requests or only responses have. */
  readonly isExample?: boolean;
  /** Whether a schema of the contract has properties that are only in requests, or only in responses. */
  readonly hasRefused: boolean;
  /** Whether a schema refers to what others have evaluated. */
  readonly hasUnevaluated: boolean;
}

/** A schema to write, with the schemas that apply to the same value: a property that one refuses, no other one requires. */
interface Place {
  readonly schema: Schema;
  readonly context: readonly Schema[];
  /** Whether it only tests a value; then texts need not be well-formed. */
  readonly isTest: boolean;
}

/**
 * Returns the function that rewrites schemas for one instance of Ajv, and defines those that they refer to.
 * @param define - Is called with each schema that another one refers to.
 * @param prefix - The beginning of their names.
 */
export function createRewriter(
  options: RewriteOptions,
  prefix: string,
  define: (name: string, schema: AnySchemaObject) => void,
): (schema: Schema) => AnySchemaObject {
  const { source, isCounted = false, allErrors } = options;
  /** The names of the schemas that are referred to. */
  const names = new Map<string, string>();
  /** The schemas whose evaluated properties and items other schemas need to know. */
  const tracked = new Set<Schema>();
  const refused = new Map<Schema, ReadonlySet<string>>();
  const unwritten: (() => void)[] = [];

  /**
   * Writes a schema in place, or refers to it if it is large.
   * @param keyword - `$ref` for a schema of the same value, since Ajv then knows what it has evaluated; `refer` for one
   *   inside it, which need not be compiled first.
   */
  function use(place: Place, keyword: '$ref' | 'refer'): AnySchemaObject {
    if (isSmall(place.schema)) return write(place);
    const isKnown = names.size > maxContexts || !options.hasRefused;
    const context = isKnown ? [place.schema] : place.context;
    const ids = [...new Set(context)].map(idOf).sort();
    const key = [place.isTest, tracked.has(place.schema), idOf(place.schema), ...ids].join();
    let name = names.get(key);
    if (name === undefined) {
      const defined = (name = `${prefix}${names.size}`);
      names.set(key, name);
      unwritten.push(() => {
        define(defined, write({ ...place, context }));
      });
    }
    return { [keyword]: name };
  }

  function track(root: Schema): void {
    for (const schema of options.hasUnevaluated ? allSchemas(root) : []) {
      if ((schema.unevaluatedItems ?? schema.unevaluatedProperties) === undefined) continue;
      for (const one of allSchemas(schema, combiningKeywords)) tracked.add(one);
    }
  }

  /**
   * Rewrites a schema. Numbers are checked by the keyword `numeric`, because Ajv does not accept a bigint as an integer,
   * and accepts a rounded number. Every string must be well-formed, unless the schema only tests a value.
   */
  function write(place: Place): AnySchemaObject {
    const { schema, isTest } = place;
    if (schema.binary && source === 'text')
      return { bytes: pick(schema, ['minLength', 'maxLength']) satisfies BytesRule };
    const { type, enum: values } = schema;
    const isNumeric =
      type?.some((name) => name === 'integer' || name === 'number') ??
      numericKeywords.some((keyword) => schema[keyword] !== undefined);
    const takes = (name: TypeName) => type?.includes(name) ?? true;
    const isContainer = takes('object') || takes('array');
    const weight = weigh(schema, allErrors);
    const written: AnySchemaObject = {
      ...pick(schema, plainKeywords),
      ...(schema.uniqueItems && { distinct: { isCounted } }),
      ...(type !== undefined && { type: type.length === 1 ? type[0] : type }),
      ...(!isTest && takes('string') && { wellFormed: true }),
      ...writeParts(place),
      ...(isCounted && (isContainer || weight.own + weight.text > 0) && { counted: weight }),
    };
    if (!isNumeric) return written;
    delete written['type'];
    if (type !== undefined && values !== undefined) delete written['enum'];
    const limits = pick(schema, ['type', 'enum', ...numericKeywords]);
    const rule = { schema: { ...limits, isInt64: schema.number === 'int64' }, source };
    return { ...written, numeric: rule satisfies NumericRule };
  }

  /** Rewrites the schemas inside a schema. */
  function writeParts({ schema, context, isTest }: Place): AnySchemaObject {
    const inside = (one: Schema, others: Schema[]) => use({ schema: one, context: others, isTest }, 'refer');
    const unless = (one: Schema, others: Schema[]) => !isNothing(one) && inside(one, others);
    const alone = (one: Schema) => unless(one, [one]);
    const test = (one: Schema, keyword: string) =>
      use({ schema: one, context: [one], isTest: true }, keyword === 'contains' ? 'refer' : '$ref');
    const part = (one: Schema) => use({ schema: one, context: [...context, one], isTest }, '$ref');
    const property = (one: Schema, name: string) => {
      if (one.refused && options.isExample) return {};
      if (one.refused) return { refused: options.isResponse ? 'write-only' : 'read-only' };
      return inside(
        one,
        insideOf(context, ({ properties = {}, additionalProperties }) =>
          Object.hasOwn(properties, name) ? properties[name] : additionalProperties,
        ),
      );
    };
    const rest = (keyword: 'items' | 'additionalProperties') =>
      mapSchemas(schema, [keyword], (one) =>
        unless(
          one,
          insideOf(context, (outer) => outer[keyword]),
        ),
      );
    const isRequired = (name: string) => !context.some((one) => refusedBy(one).has(name));
    const named = {
      ...mapSchemas(schema, ['patternProperties'], alone),
      ...mapSchemas(schema, ['properties'], property),
      ...rest('additionalProperties'),
    };
    // As parts of allOf, since Ajv otherwise takes what alternatives evaluate for what these keywords do.
    // Any number of items will do.
    const takesNone = schema.minContains === 0 && schema.maxContains === undefined;
    const contained = {
      ...pick(schema, ['minContains', 'maxContains']),
      ...mapSchemas(schema, ['contains'], test),
    };
    const isApart = schema.patternProperties !== undefined;
    const all = [
      ...(isApart ? [named] : []),
      // Ajv leaves out what follows prefixItems if there are fewer items, and takes an empty array for the one before it.
      ...(schema.contains && !takesNone ? [{ minItems: schema.minContains ?? 1 }, contained] : []),
      ...(schema.allOf?.map((one) => use({ schema: one, context, isTest }, '$ref')) ?? []),
      ...writeConditions(schema, test, part),
    ];
    return {
      ...mapSchemas(schema, ['prefixItems', 'propertyNames'], alone),
      ...(!isApart && named),
      ...rest('items'),
      ...mapSchemas(schema, ['unevaluatedItems', 'unevaluatedProperties'], alone),
      ...mapSchemas(schema, ['not'], test),
      ...mapSchemas(schema, ['anyOf', 'oneOf'], (one) => guard(one, part(one))),
      ...(all.length > 0 && { allOf: all }),
      ...(schema.required && { required: schema.required.filter(isRequired) }),
    };
  }

  /** Rewrites conditions, as parts of allOf. */
  function writeConditions(
    schema: Schema,
    test: (one: Schema, keyword: string) => AnySchemaObject,
    part: (one: Schema) => AnySchemaObject,
  ): AnySchemaObject[] {
    const condition = {
      ...mapSchemas(schema, ['if'], test),
      ...mapSchemas(schema, ['then', 'else'], part),
    };
    if (tracked.has(schema)) {
      const dependent = Object.entries(schema.dependentSchemas ?? {}).map(([name, one]) => ({
        if: { type: 'object', required: [name] },
        then: part(one),
      }));
      return [...(schema.if ? [condition] : []), ...dependent].map(asAlternatives);
    }
    const dependent = mapSchemas(schema, ['dependentSchemas'], part);
    return [
      ...((schema.then ?? schema.else) ? [condition] : []),
      ...(schema.dependentSchemas ? [dependent] : []),
    ];
  }

  /** The names of properties that an object must not have, whichever alternative of the schema it has. */
  function refusedBy(schema: Schema): ReadonlySet<string> {
    const known = refused.get(schema);
    if (known !== undefined) return known;
    const { properties = {}, allOf = [], anyOf, oneOf } = schema;
    const of = (one: Schema) => refusedBy(one);
    const found = new Set(Object.keys(properties).filter((name) => properties[name]!.refused));
    for (const part of allOf) for (const name of of(part)) found.add(name);
    for (const [first, ...others] of [anyOf ?? [], oneOf ?? []]) {
      if (first === undefined) continue;
      for (const name of of(first)) if (others.every((one) => of(one).has(name))) found.add(name);
    }
    refused.set(schema, found);
    return found;
  }

  return (schema) => {
    track(schema);
    const written = write({ schema, context: [schema], isTest: false });
    for (let next = unwritten.pop(); next !== undefined; next = unwritten.pop()) next();
    return written;
  };
}

const small = new WeakMap<Schema, boolean>();

/** Whether few schemas are in a schema, with itself, each counted as often as it is there. */
function isSmall(root: Schema): boolean {
  const known = small.get(root);
  if (known !== undefined) return known;
  const found = [root];
  for (const schema of found)
    if (found.length <= maxInline) for (const part of partsOf(schema)) found.push(part);
  small.set(root, found.length <= maxInline);
  return found.length <= maxInline;
}

/** Writes a condition so that Ajv knows what it has evaluated: without `then`, and whether the condition holds or not. */
function asAlternatives({
  if: condition,
  then = {},
  else: otherwise = {},
}: AnySchemaObject): AnySchemaObject {
  return { anyOf: [{ allOf: [condition, then] }, { allOf: [{ not: condition as unknown }, otherwise] }] };
}

/** The schemas that apply to a part of a value, from those that apply to the value. */
function insideOf(context: readonly Schema[], find: (schema: Schema) => Schema | undefined): Schema[] {
  const parts = context.flatMap((one) => [...allSchemas(one, ['allOf'])]).map(find);
  return [...new Set(parts.filter((one) => one !== undefined))];
}

/** Lets Ajv try an alternative only if the texts that it fixes are right, such as those that discriminate. */
function guard(schema: Schema, written: AnySchemaObject): AnySchemaObject {
  const fixed = [...allSchemas(schema, ['allOf'])].flatMap(({ properties = {} }) =>
    Object.entries(properties).flatMap(([name, { enum: values }]) =>
      values?.every((value) => typeof value === 'string') ? [[name, { enum: values }] as const] : [],
    ),
  );
  if (fixed.length === 0) return written;
  return { if: { properties: Object.fromEntries(fixed) }, then: written, else: false };
}

function pick<Keyword extends keyof Schema>(
  schema: Schema,
  keywords: readonly Keyword[],
): Pick<Schema, Keyword> {
  const given = keywords.map((keyword) => [keyword, schema[keyword]] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined)) as Pick<Schema, Keyword>;
}
