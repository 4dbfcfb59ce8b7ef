// The normal form of a schema.
import type { ContractNode } from '../document/contract-node.js';
import type { NumberForm, TypeName } from './json-types.js';

/** The use of a schema. URLs and headers contain only text. */
export type Use = 'text' | 'request' | 'response';

/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
export const schemaKeywords = {
  one: [
    ...(['items', 'contains', 'unevaluatedItems', 'propertyNames', 'unevaluatedProperties'] as const),
    ...(['additionalProperties', 'not', 'if', 'then', 'else'] as const),
  ],
  list: ['prefixItems', 'allOf', 'anyOf', 'oneOf'],
  named: ['properties', 'patternProperties', 'dependentSchemas'],
} as const;

/** Keywords whose value is a count. */
export const countKeywords = [
  ...(['minLength', 'maxLength', 'minItems', 'maxItems', 'minContains', 'maxContains'] as const),
  ...(['minProperties', 'maxProperties'] as const),
];

/** Keywords that limit numbers. */
export const numericKeywords = [
  ...(['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'] as const),
];

type Keywords<Names extends readonly string[], Value> = { readonly [_ in Names[number]]?: Value };

/**
 * A schema in the normal form: keywords of JSON Schema 2020-12, each checked. It may contain itself.
 */
export interface Schema
  extends
    Keywords<typeof schemaKeywords.one, Schema>,
    Keywords<typeof schemaKeywords.list, readonly Schema[]>,
    Keywords<typeof schemaKeywords.named, Readonly<Record<string, Schema>>>,
    Keywords<typeof countKeywords, number>,
    Keywords<typeof numericKeywords, number> {
  readonly type?: readonly TypeName[];
  readonly number?: NumberForm;
  /** In a request, the value of an absent property or parameter. */
  readonly default?: unknown;
  /** Of texts only; the format of a number is in `number`, and the range of int32 in `minimum` and `maximum`. */
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  /** In a request, whether the value is bytes, where it is not JSON. */
  readonly binary?: true;
  readonly uniqueItems?: true;
  readonly required?: readonly string[];
  readonly dependentRequired?: Readonly<Record<string, readonly string[]>>;
  /** The reason why a property of this schema, by itself or in combination, must not be in a request or a response. */
  readonly hidden?: 'read-only' | 'write-only';
  /** The same, in place of everything else that the schema of a property says. */
  readonly refused?: Schema['hidden'];
}

/** A default in the contract, which its schema must allow. */
export interface Sample {
  readonly schema: Schema;
  readonly value: unknown;
  /** Its place in the contract. */
  readonly node: ContractNode;
}

/** A schema that is being read. */
export type MutableSchema = { -readonly [Keyword in keyof Schema]: Schema[Keyword] };

/** The schema that accepts every value, and the one that accepts none. */
export const anySchema: Schema = {};
export const nothing: Schema = { not: anySchema };

/** Whether a schema accepts every value, as `true` does. */
export function isAnything(schema: Schema): boolean {
  return Object.keys(schema).length === 0;
}

/** Whether a schema accepts no value, as `false` does. */
export function isNothing({ not }: Schema): boolean {
  return not !== undefined && isAnything(not);
}

/** The keywords whose schemas apply to the value itself. */
export const combiningKeywords = [
  ...(['allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'dependentSchemas'] as const),
];

type SchemaKeyword = (typeof schemaKeywords)[keyof typeof schemaKeywords][number];
const allSchemaKeywords: readonly SchemaKeyword[] = Object.values(schemaKeywords).flat();

/** Returns the keywords of those given that a schema has, with the result of a function in place of each schema. */
export function mapSchemas(
  schema: Schema,
  keywords: readonly SchemaKeyword[],
  map: (part: Schema) => unknown,
): Record<string, unknown> {
  const written: Record<string, unknown> = {};
  for (const keyword of keywords) {
    const given: unknown = schema[keyword];
    if (given === undefined) continue;
    if (Array.isArray(given)) written[keyword] = given.map(map);
    else if (schemaKeywords.named.some((named) => named === keyword)) {
      const parts = Object.entries(given as Record<string, Schema>);
      written[keyword] = Object.fromEntries(parts.map(([name, part]) => [name, map(part)]));
    } else written[keyword] = map(given as Schema);
  }
  return written;
}

/** The schemas inside a schema: those of all keywords, or of the given ones. */
export function partsOf(schema: Schema, keywords = allSchemaKeywords): Schema[] {
  const parts: Schema[] = [];
  mapSchemas(schema, keywords, (part) => parts.push(part));
  return parts;
}

/** A schema and all schemas inside it, or only those of some keywords, each once. */
export function allSchemas(root: Schema, keywords?: readonly SchemaKeyword[]): Set<Schema> {
  const all = new Set([root]);
  for (const schema of all) for (const part of partsOf(schema, keywords)) all.add(part);
  return all;
}

/** The reason why a property must not be there, in its schema or those that it combines; undefined if it may be. */
export function whyHidden(schema: Schema): Schema['hidden'] {
  return [...allSchemas(schema, ['allOf'])].find(({ hidden }) => hidden !== undefined)?.hidden;
}
