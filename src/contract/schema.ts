// The normal form of a schema.
import type { Shape, TypeName } from './shape.js';

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
  readonly allOf?: readonly Schema[];
  /** Whether a request (`readOnly`) or a response (`writeOnly`) must not contain the value. */
  readonly refused?: true;
  readonly shape: Shape;
}
