// A plant as JSON text, in which both engines keep it and lists answer it.
import type { Plant, PlantBody } from '../domain/plants.js';

type KeyOf<Type> = Type extends Type ? keyof Type : never;
type Field = Exclude<KeyOf<Plant | PlantBody>, 'id'>;
/**
 * The fields that are kept, in their order in the text. A field that the contract adds to what is accepted or answered
 * does not compile until it is listed here too, and neither does a schema with fields of any name.
 */
const fields = { name: true, tag: true } satisfies Record<Field, string extends Field ? never : true>;
const keys = Object.keys(fields) as (keyof typeof fields)[];

/** The JSON of a plant: to the byte what JSON.stringify gives for its fields in their order, with integers exact. */
export function plantJson(plant: Plant): string {
  let members = '';
  for (const key of keys) {
    const text = exactJson(plant[key]);
    if (text !== undefined) members += `${members === '' ? '' : ','}"${key}":${text}`;
  }
  return `{${members}}`;
}

/** What JSON.stringify gives for a JSON value or undefined; but a bigint, at which that throws, becomes its digits. */
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
