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
import { allSchemas } from '../../../contract/schema/schema-walk.js';
import { shapeOf } from '../../../contract/schema/shape.js';
import type { ChoiceRule, Guard } from './choice.js';
import type { NumericRule, ValueSource } from './numeric-keyword.js';

/** The keywords that Ajv gets as they are. */
const plainKeywords = [
  ...(['enum', 'format', 'pattern', 'dependentRequired'] as const),
  ...(['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'] as const),
];

/** The value of the keyword `bytes`: the limits of their number. */
export type BytesRule = Pick<Schema, 'minLength' | 'maxLength'>;

/** A schema with more schemas inside is written once, and referred to: then the effort grows with the contract only. */
const maxInline = 40;
/** The maximum number of schemas that are written separately for each of their contexts. */
const maxContexts = 10_000;

/** Options for rewriting schemas. */
export interface RewriteOptions {
  readonly source: ValueSource;
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

/** Rewrites schemas for one instance of Ajv, and defines those that they refer to. */
export class Rewriter {
  readonly #options: RewriteOptions;
  readonly #prefix: string;
  readonly #define: (name: string, schema: AnySchemaObject) => void;
  /** The names of the schemas that are referred to. */
  readonly #names = new Map<string, string>();
  readonly #namesOf = new Map<Schema, string[]>();
  readonly #ids = new Map<Schema, number>();
  /** The schemas whose evaluated properties and items other schemas need to know. */
  readonly #tracked = new Set<Schema>();
  readonly #refused = new Map<Schema, ReadonlySet<string>>();
  readonly #unwritten: (() => void)[] = [];

  /**
   * @param prefix - The beginning of their names.
   * @param define - Called with each schema that another one refers to.
   */
  constructor(
    options: RewriteOptions,
    prefix: string,
    define: (name: string, schema: AnySchemaObject) => void,
  ) {
    this.#options = options;
    this.#prefix = prefix;
    this.#define = define;
  }

  /** Rewrites a schema. */
  rewrite(schema: Schema): AnySchemaObject {
    for (const outer of this.#options.hasUnevaluated ? allSchemas(schema) : []) {
      if ((outer.unevaluatedItems ?? outer.unevaluatedProperties) === undefined) continue;
      for (const one of allSchemas(outer, combiningKeywords)) this.#tracked.add(one);
    }
    const written = this.#write({ schema, context: [schema], isTest: false });
    this.#writeOthers();
    return written;
  }

  /** The names by which a schema is referred to, one for each context. */
  namesOf(schema: Schema): readonly string[] {
    const names = this.#namesOf.get(schema);
    if (names !== undefined) return names;
    const name = this.#nameOf({ schema, context: [schema], isTest: false });
    this.#writeOthers();
    return [name];
  }

  #writeOthers(): void {
    for (let write = this.#unwritten.pop(); write !== undefined; write = this.#unwritten.pop()) write();
  }

  /**
   * Writes a schema in place, or refers to it if it is large.
   * @param keyword - `$ref` for a schema of the same value, if Ajv must know what it has evaluated.
   */
  #use(place: Place, keyword: '$ref' | 'refer' = 'refer'): AnySchemaObject {
    return isSmall(place.schema) ? this.#write(place) : { [keyword]: this.#nameOf(place) };
  }

  #nameOf(place: Place): string {
    const { schema, isTest } = place;
    const isAlone = this.#names.size > maxContexts || !this.#options.hasRefused;
    const context = isAlone ? [schema] : [...new Set(place.context)];
    const ids = context.map((one) => this.#idOf(one)).sort((a, b) => a - b);
    const key = [isTest, this.#tracked.has(schema), this.#idOf(schema), ...ids].join();
    let name = this.#names.get(key);
    if (name === undefined) {
      const defined = (name = `${this.#prefix}${this.#names.size}`);
      this.#names.set(key, name);
      if (!isTest) this.#namesOf.set(schema, [...(this.#namesOf.get(schema) ?? []), name]);
      this.#unwritten.push(() => {
        this.#define(defined, this.#write({ ...place, context }));
      });
    }
    return name;
  }

  #idOf(schema: Schema): number {
    let id = this.#ids.get(schema);
    if (id === undefined) this.#ids.set(schema, (id = this.#ids.size));
    return id;
  }

  /**
   * Numbers are checked by the keyword `numeric`, because Ajv does not accept a bigint as an integer, and accepts a rounded
   * number. Every string must be well-formed, unless the schema only tests a value.
   */
  #write(place: Place): AnySchemaObject {
    const { schema, isTest, context } = place;
    const { source } = this.#options;
    if (schema.binary && source === 'text')
      return { bytes: pick(schema, ['minLength', 'maxLength']) satisfies BytesRule };
    const { type, enum: values } = schema;
    const isNumeric =
      type?.some((name) => name === 'integer' || name === 'number') ??
      numericKeywords.some((keyword) => schema[keyword] !== undefined);
    const required = schema.required?.filter(
      (name) => !context.some((one) => this.#refusedBy(one).has(name)),
    );
    const written: AnySchemaObject = {
      ...pick(schema, plainKeywords),
      ...(schema.uniqueItems && { distinct: true }),
      ...(type !== undefined && { type: type.length === 1 ? type[0] : type }),
      ...(!isTest && (type?.includes('string') ?? true) && { wellFormed: true }),
      ...(required && required.length > 0 && { needs: required }),
      ...this.#writeParts(place),
    };
    if (!isNumeric) return written;
    delete written['type'];
    if (type !== undefined && values !== undefined) delete written['enum'];
    const limits = pick(schema, ['type', 'enum', ...numericKeywords]);
    const rule = { schema: { ...limits, isInt64: schema.number === 'int64' }, source };
    return { ...written, numeric: rule satisfies NumericRule };
  }

  /** Rewrites the schemas inside a schema. */
  #writeParts(place: Place): AnySchemaObject {
    const { schema, context, isTest } = place;
    const alone = (one: Schema) => !isNothing(one) && this.#use({ schema: one, context: [one], isTest });
    const rest = (keyword: 'items' | 'additionalProperties') =>
      mapSchemas(schema, [keyword], (one) =>
        isNothing(one)
          ? false
          : this.#use({ schema: one, context: insideOf(context, (outer) => outer[keyword]), isTest }),
      );
    const named = {
      ...mapSchemas(schema, ['patternProperties'], alone),
      ...mapSchemas(schema, ['properties'], (one, name) => this.#writeProperty(place, one, name)),
      ...rest('additionalProperties'),
    };
    // As parts of allOf, since Ajv otherwise takes what alternatives evaluate for what these keywords do.
    const isApart = schema.patternProperties !== undefined;
    const all = [...(isApart ? [named] : []), ...this.#writeCombined(place)];
    return {
      ...mapSchemas(schema, ['prefixItems', 'propertyNames'], alone),
      ...(!isApart && named),
      ...rest('items'),
      ...mapSchemas(schema, ['unevaluatedItems', 'unevaluatedProperties'], alone),
      ...mapSchemas(schema, ['not'], (one) => this.#test(one)),
      ...this.#writeAlternatives(place),
      ...(all.length > 0 && { allOf: all }),
    };
  }

  #writeProperty({ context, isTest }: Place, schema: Schema, name: string): AnySchemaObject {
    if (schema.refused && this.#options.isExample) return {};
    if (schema.refused) return { refused: this.#options.isResponse ? 'write-only' : 'read-only' };
    const find = ({ properties = {}, additionalProperties }: Schema) =>
      Object.hasOwn(properties, name) ? properties[name] : additionalProperties;
    return this.#use({ schema, context: insideOf(context, find), isTest });
  }

  #test(schema: Schema): AnySchemaObject {
    return this.#use({ schema, context: [schema], isTest: true }, this.#isTracked(schema));
  }

  #isTracked(schema: Schema): '$ref' | 'refer' {
    return this.#tracked.has(schema) ? '$ref' : 'refer';
  }

  /** Rewrites alternatives: as the keyword `choice`, or for Ajv, which knows what its own keywords have evaluated. */
  #writeAlternatives({ schema, context, isTest }: Place): AnySchemaObject {
    const part = (one: Schema): Place => ({ schema: one, context: [...context, one], isTest });
    if (this.#tracked.has(schema))
      return mapSchemas(schema, ['anyOf', 'oneOf'], (one) => this.#use(part(one), '$ref'));
    const groups = (['anyOf', 'oneOf'] as const).flatMap((keyword): ChoiceRule[] => {
      const alternatives = schema[keyword];
      if (alternatives === undefined) return [];
      return [
        {
          keyword,
          names: alternatives.map((one) => this.#nameOf(part(one))),
          guards: alternatives.map(guardOf),
        },
      ];
    });
    return groups.length === 0 ? {} : { choice: groups };
  }

  /** Rewrites what is combined in a schema, as parts of allOf. */
  #writeCombined({ schema, context, isTest }: Place): AnySchemaObject[] {
    const part = (one: Schema) =>
      this.#use({ schema: one, context: [...context, one], isTest }, this.#isTracked(one));
    // Ajv leaves out what follows prefixItems if there are fewer items, and takes an empty array for the one before it.
    // Any number of items will do.
    const takesNone = schema.minContains === 0 && schema.maxContains === undefined;
    const contained = {
      ...pick(schema, ['minContains', 'maxContains']),
      ...mapSchemas(schema, ['contains'], (one) => this.#use({ schema: one, context: [one], isTest: true })),
    };
    const condition = {
      ...mapSchemas(schema, ['if'], (one) => this.#test(one)),
      ...mapSchemas(schema, ['then', 'else'], part),
    };
    const dependent = Object.entries(schema.dependentSchemas ?? {}).map(([name, one]) => ({
      if: { type: 'object', required: [name] },
      then: part(one),
    }));
    const isTracked = this.#tracked.has(schema);
    const conditions = [
      ...(schema.if && (isTracked || (schema.then ?? schema.else)) ? [condition] : []),
      ...dependent,
    ];
    return [
      ...(schema.contains && !takesNone ? [{ minItems: schema.minContains ?? 1 }, contained] : []),
      ...(schema.allOf?.map((one) => this.#use({ schema: one, context, isTest }, this.#isTracked(one))) ??
        []),
      ...(isTracked ? conditions.map(asAlternatives) : conditions),
    ];
  }

  /** The names of properties that an object must not have, whichever alternative of the schema it has. */
  #refusedBy(schema: Schema): ReadonlySet<string> {
    if (!this.#options.hasRefused) return none;
    const known = this.#refused.get(schema);
    if (known !== undefined) return known;
    const { properties = {}, allOf = [], anyOf, oneOf } = schema;
    const of = (one: Schema) => this.#refusedBy(one);
    const found = new Set(Object.keys(properties).filter((name) => properties[name]!.refused));
    for (const part of allOf) for (const name of of(part)) found.add(name);
    for (const [first, ...others] of [anyOf ?? [], oneOf ?? []]) {
      if (first === undefined) continue;
      for (const name of of(first)) if (others.every((one) => of(one).has(name))) found.add(name);
    }
    this.#refused.set(schema, found);
    return found;
  }
}

const none: ReadonlySet<string> = new Set();
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

/**
 * Returns the features that distinguish an alternative at a glance: the types, and the texts that properties must have.
 */
function guardOf(schema: Schema): Guard {
  const together = [...allSchemas(schema, ['allOf'])];
  const required = together.flatMap((one) => one.required ?? []);
  const fixed: Record<string, readonly string[]> = {};
  for (const { properties = {} } of together)
    for (const [name, { enum: values }] of Object.entries(properties))
      if (required.includes(name) && values?.every((value) => typeof value === 'string'))
        fixed[name] = values.filter((value) => fixed[name]?.includes(value) ?? true);
  const { types } = shapeOf(schema);
  return { fixed, ...(types && { types }) };
}

function pick<Keyword extends keyof Schema>(
  schema: Schema,
  keywords: readonly Keyword[],
): Pick<Schema, Keyword> {
  const given = keywords.map((keyword) => [keyword, schema[keyword]] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined)) as Pick<Schema, Keyword>;
}
