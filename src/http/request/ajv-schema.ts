// Rewrites schemas of the normal form for Ajv.
import type { AnySchemaObject } from 'ajv';
import {
  countKeywords,
  isNothing,
  mapSchemas,
  numericKeywords,
  partsOf,
  type Schema,
} from '../../contract/schema.js';
import {
  anything,
  propertyOf,
  Shapes,
  withoutAbsent,
  type Shape,
  type TypeName,
} from '../../contract/shape.js';
import { weigh } from './validation-effort.js';
import type { ValueSource } from './fault-messages.js';
import type { NumericRule } from './numeric-keyword.js';

/** The keywords that Ajv gets as they are. `format` and `pattern` can be wrong in the schema of a response. */
const plainKeywords = ['enum', ...countKeywords, 'uniqueItems', 'dependentRequired'] as const;
const requestKeywords = [...plainKeywords, 'format', 'pattern'] as const;

/** How a schema is rewritten. */
export interface RewriteOptions {
  /** Whether the effort of checks is counted, and how many faults validation finds. */
  readonly counted?: 'all faults' | 'first fault' | undefined;
  /** Whether responses are checked, only to find which alternative they have. */
  readonly isLenient?: boolean;
}

/** Rewrites a schema for Ajv, with the schemas that contain themselves in `$defs`. */
export function rewrite(schema: Schema, source: ValueSource, options: RewriteOptions): AnySchemaObject {
  const rewriter = new Rewriter(source, options);
  const written = rewriter.rewrite(schema);
  const isPlain = Object.keys(rewriter.defs).length === 0;
  return isPlain ? written : { ...written, $defs: rewriter.defs };
}

class Rewriter {
  readonly #source: ValueSource;
  readonly #options: RewriteOptions;
  /** The schemas that contain themselves, by their names in `$defs`. */
  readonly #names = new Map<Schema, string>();
  readonly defs: Record<string, AnySchemaObject> = {};
  readonly #shapes = new Shapes();

  constructor(source: ValueSource, options: RewriteOptions) {
    this.#source = source;
    this.#options = options;
  }

  /**
   * Rewrites a schema. Numbers are checked by the keyword `numeric`, because Ajv does not accept a bigint as an integer,
   * and accepts a rounded number. Every string must be well-formed, unless the schema only tests a value.
   * @param shape - What all schemas of the value say together: a property that one refuses, no other one requires.
   */
  rewrite(schema: Schema, shape = schema.shape, isTest = false): AnySchemaObject {
    if (schema.recursive !== undefined) return this.#refer(schema.recursive());
    const { counted, isLenient = false } = this.#options;
    const { type, enum: values } = schema;
    const isNumeric =
      (type?.some((name) => name === 'integer' || name === 'number') ?? false) ||
      numericKeywords.some((keyword) => schema[keyword] !== undefined);
    const takes = (name: TypeName) => type?.includes(name) ?? true;
    const isContainer = takes('object') || takes('array');
    const weight = weigh(schema, counted === 'all faults');
    const written: AnySchemaObject = {
      ...pick(schema, isLenient ? plainKeywords : requestKeywords),
      ...(type !== undefined && { type: type.length === 1 ? type[0] : type }),
      ...(!isTest && takes('string') && { wellFormed: true }),
      ...this.#inner(schema, shape, isTest),
      ...(counted && (isContainer || weight.own + weight.text > 0) && { counted: weight }),
    };
    if (!isNumeric) return written;
    delete written['type'];
    if (type !== undefined && values !== undefined) delete written['enum'];
    const limits = pick(schema, ['type', 'enum', ...numericKeywords]);
    const rule = { schema: { ...limits, isInt64: schema.shape.number === 'int64' }, source: this.#source };
    return { ...written, numeric: rule satisfies NumericRule };
  }

  #refer(schema: Schema): AnySchemaObject {
    const name = this.#names.get(schema) ?? String(this.#names.size);
    if (!this.#names.has(schema)) {
      this.#names.set(schema, name);
      // The name is known before the schema that refers to it is rewritten.
      this.defs[name] = this.rewrite(schema);
    }
    return { $ref: `#/$defs/${name}` };
  }

  /** Rewrites the schemas inside a schema. */
  #inner(schema: Schema, shape: Shape, isTest: boolean): AnySchemaObject {
    const at = (place: Shape | undefined) => (one: Schema) =>
      !isNothing(one) && this.rewrite(one, place ?? one.shape, isTest);
    const inner = (one: Schema) => this.rewrite(one, one.shape, isTest);
    const test = (one: Schema) => this.rewrite(one, one.shape, true);
    const part = (one: Schema) => this.rewrite(one, this.#shapes.merge(shape, one.shape, ignore), isTest);
    const property = (one: Schema, name: string) => {
      if (one.refused) return this.#options.isLenient ? {} : { refused: true };
      return this.rewrite(one, propertyOf(shape, name), isTest);
    };
    // As parts of allOf, since Ajv forgets what has been evaluated before these keywords in the same schema.
    const all: unknown[] = schema.allOf?.map((one) => this.rewrite(one, shape, isTest)) ?? [];
    if (schema.then ?? schema.else)
      all.push({ ...mapSchemas(schema, ['if'], test), ...mapSchemas(schema, ['then', 'else'], part) });
    if (schema.dependentSchemas) all.push(mapSchemas(schema, ['dependentSchemas'], part));
    return {
      ...mapSchemas(schema, ['prefixItems', 'patternProperties', 'propertyNames'], inner),
      ...mapSchemas(schema, ['properties'], property),
      ...mapSchemas(schema, ['items'], at(shape.items)),
      ...mapSchemas(schema, ['additionalProperties'], at(shape.additional || anything)),
      ...mapSchemas(schema, ['unevaluatedItems', 'unevaluatedProperties'], at(undefined)),
      ...mapSchemas(schema, ['contains', 'not'], test),
      ...mapSchemas(schema, ['anyOf', 'oneOf'], (one) => guard(one, part(one))),
      ...(all.length > 0 && { allOf: all }),
      ...(schema.required && { required: withoutAbsent(schema.required, shape.properties) }),
    };
  }
}

/** Lets Ajv try an alternative only if the texts that it fixes are right, such as those that discriminate. */
function guard(schema: Schema, written: AnySchemaObject): AnySchemaObject {
  const fixed = fixedTexts(schema);
  if (fixed.length === 0) return written;
  return { if: { properties: Object.fromEntries(fixed) }, then: written, else: false };
}

function fixedTexts(schema: Schema): (readonly [string, { enum: readonly unknown[] }])[] {
  const { properties = {}, allOf = [] } = schema.recursive?.() ?? schema;
  const own = Object.entries(properties).flatMap(([name, { enum: values }]) =>
    values?.every((value) => typeof value === 'string') ? [[name, { enum: values }] as const] : [],
  );
  return [...own, ...allOf.flatMap(fixedTexts)];
}

/** Whether a schema has alternatives somewhere, or contains itself. */
export function isChoosing(schema: Schema): boolean {
  return [schema.recursive, schema.anyOf, schema.oneOf].some(Boolean) || partsOf(schema).some(isChoosing);
}

function ignore(): void {
  // Contradictions have been reported.
}

function pick<Keyword extends keyof Schema>(
  schema: Schema,
  keywords: readonly Keyword[],
): Pick<Schema, Keyword> {
  const given = keywords.map((keyword) => [keyword, schema[keyword]] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined)) as Pick<Schema, Keyword>;
}
