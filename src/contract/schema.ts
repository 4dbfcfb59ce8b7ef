// The normal form of a schema.
import { anything, type Shape, type TypeName } from './shape.js';

/** Where a schema is used; URLs and headers contain only text. The server has errors of its own, so theirs describes. */
export type Use = 'text' | 'request' | 'response' | 'error';

/** Whether values from clients are checked against a schema of this use. */
export function isOfRequests(use: Use): boolean {
  return use === 'text' || use === 'request';
}

/** A schema in the normal form: keywords of JSON Schema 2020-12, each checked, and the shape that follows from them. */
export interface Schema {
  readonly type?: readonly TypeName[];
  /** Of texts only; the format of a number is in the shape, and the range of int32 in `minimum` and `maximum`. */
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: false | Schema;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly prefixItems?: readonly Schema[];
  readonly contains?: Schema;
  readonly minContains?: number;
  readonly maxContains?: number;
  readonly unevaluatedItems?: Schema;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly propertyNames?: Schema;
  readonly dependentRequired?: Readonly<Record<string, readonly string[]>>;
  readonly dependentSchemas?: Readonly<Record<string, Schema>>;
  readonly unevaluatedProperties?: Schema;
  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly not?: Schema;
  readonly if?: Schema;
  readonly then?: Schema;
  readonly else?: Schema;
  /** Stands for the schema that it returns, which contains this one. */
  readonly recursive?: () => Schema;
  /** Whether a request (`readOnly`) or a response (`writeOnly`) must not contain the value. */
  readonly refused?: true;
  readonly shape: Shape;
}

/** Whether a schema accepts no value, as `false` does. */
export function isNothing({ not }: Schema): boolean {
  return not?.shape === anything && Object.keys(not).length === 1;
}

/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
export const schemaKeywords = {
  one: [
    ...(['items', 'contains', 'unevaluatedItems', 'propertyNames', 'unevaluatedProperties'] as const),
    ...(['not', 'if', 'then', 'else'] as const),
  ],
  list: ['prefixItems', 'allOf', 'anyOf', 'oneOf'],
  named: ['properties', 'patternProperties', 'dependentSchemas'],
} as const;

/** The schemas inside a schema. */
export function partsOf(schema: Schema): Schema[] {
  const { one, list, named } = schemaKeywords;
  const parts = [
    ...one.map((keyword) => schema[keyword]),
    ...list.flatMap((keyword) => schema[keyword] ?? []),
    ...named.flatMap((keyword) => Object.values(schema[keyword] ?? {})),
    schema.additionalProperties === false ? undefined : schema.additionalProperties,
  ];
  return parts.filter((part) => part !== undefined);
}
