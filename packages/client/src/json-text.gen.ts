// Copied from packages/server/src/contract/document/json-text.ts by "npm run generate"; do not edit.
// JSON texts: bodies that are JSON already, and JSON with integers of any size.

/**
 * A response body that is JSON already, such as a stored document. It is sent as it is, without its schema, since
 * the text was checked when it was stored.
 */
export class JsonText<Value> {
  /** The JSON. */
  readonly text: string;
  /** The type of the value; never set. */
  declare readonly value?: Value;

  /** @param text - Well-formed JSON that matches the schema: it is not checked. */
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Like JSON.stringify for a JSON value or undefined, but writes a bigint as digits instead of throwing.
 * @example
 * exactJson({ id: 9007199254740993n }); // '{"id":9007199254740993}'
 */
export function exactJson(value: object): string;
/** The same for any value; undefined for one that JSON does not have. */
export function exactJson(value: unknown): string | undefined;
export function exactJson(value: unknown): string | undefined {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item) => exactJson(item) ?? 'null').join(',')}]`;
  const members = Object.entries(value).flatMap(([key, member]) => {
    const text = exactJson(member);
    return text === undefined ? [] : [`${JSON.stringify(key)}:${text}`];
  });
  return `{${members.join(',')}}`;
}
