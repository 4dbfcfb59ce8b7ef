// Serializes plants as JSON, which both engines store and lists return unchanged.
import type { Plant, PlantBody } from '../domain/plants.js';

type KeyOf<Type> = Type extends Type ? keyof Type : never;
type Field = Exclude<KeyOf<Plant | PlantBody>, 'id'>;
/**
 * The stored fields, in the order of the text. This fails to compile when the contract adds a field that is missing
 * here, or allows fields with arbitrary names.
 */
const fields = { name: true, tag: true } satisfies Record<Field, string extends Field ? never : true>;
const keys = Object.keys(fields) as (keyof typeof fields)[];

/** The JSON of a plant: the output of JSON.stringify for its stored fields in order, except that bigints are exact. */
export function plantJson(plant: Plant): string {
  let members = '';
  for (const key of keys) {
    const text = exactJson(plant[key]);
    if (text !== undefined) members += `${members === '' ? '' : ','}"${key}":${text}`;
  }
  return `{${members}}`;
}

/** Like JSON.stringify for a JSON value or undefined, but writes a bigint as digits instead of throwing. */
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
