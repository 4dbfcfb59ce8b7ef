// Reads parameters and fields of forms, which are texts, as the types that their schemas name.
import { isUtf8 } from 'node:buffer';
import { isInexact, parseDecimal, setOwn } from '../../contract/document/exact-json.js';
import type { TextForm } from '../../contract/parameters.js';
import { UploadedFile } from '../../contract/raw-body.js';
import { decimalNumber } from '../../contract/schema/json-types.js';
import { anything, type Shape } from '../../contract/schema/shape.js';
import { JsonReader } from './json-reader.js';

/** Texts by their names, an array where a name is repeated; and the values that they are read as. */
export type Values = Record<string, unknown>;

/** Stands for a value that occurs more often than it may: no schema allows it. */
export const repeated = Symbol('is repeated: send it once');

/** Stands for bytes that are no text. */
export const notText = Symbol('is not a text in correctly encoded UTF-8');

/** The fault of a text that could not be read, if a value stands for one; other symbols are numbers. */
export function unreadable(value: unknown): string | undefined {
  return isInexact(value) && value.description!.startsWith('is ') ? value.description : undefined;
}

/** The notation and the shape of a parameter or a field. */
export interface Readable extends TextForm {
  readonly shape: Shape;
}

/** Puts values under their names: alone, or as an array where a name is repeated. */
export function byName(pairs: readonly (readonly [name: string, value: unknown])[]): Values {
  const all = new Map<string, unknown[]>();
  for (const [name, value] of pairs) {
    const known = all.get(name);
    if (known === undefined) all.set(name, [value]);
    else known.push(value);
  }
  return Object.fromEntries([...all].map(([name, list]) => [name, list.length === 1 ? list[0] : list]));
}

/**
 * Returns the function that reads texts in place, as far as they have the form of their types.
 * @param others - The notation of other names, if they are read.
 */
export function createTextReader(
  all: readonly (Readable & { readonly name: string })[],
  others?: Readable,
): (values: Values) => Values {
  const known = new Map<string, Readable>(all.map((one) => [one.name, one]));
  return (values) => {
    // The texts of one part share the limits of one body.
    let json: JsonReader | undefined;
    const parseJson = (text: string) => (json ??= new JsonReader()).parseText(text);
    for (const name of Object.keys(values)) {
      const form = known.get(name) ?? others;
      if (form !== undefined) setOwn(values, name, readTexts(form, values[name], parseJson));
    }
    return values;
  };
}

/** Reads one value. @param parseJson - Parses JSON; a symbol describes the fault of a text that is none. */
export function readTexts(
  { kind, shape, isDelimited }: Readable,
  value: unknown,
  parseJson?: (text: string) => unknown,
): unknown {
  const isArray = shape.types?.includes('array') === true;
  if (kind === 'file') return isArray ? [value].flat() : value;
  if (kind === 'json' && parseJson !== undefined) {
    const parse = (text: unknown) => {
      // Browsers send JSON as a file.
      if (text instanceof UploadedFile)
        return isUtf8(text.bytes) ? parseJson(Buffer.from(text.bytes).toString()) : notText;
      return typeof text === 'string' ? parseJson(text) : !isArray && Array.isArray(text) ? repeated : text;
    };
    // Each item is a field of its own; some clients send one field with all of them.
    return isArray ? [value].flat().flatMap(parse) : parse(value);
  }
  return readText(shape, value, isDelimited);
}

/** Reads a text as its type, if it has that form. */
function readText(shape: Shape, value: unknown, isDelimited: boolean): unknown {
  const { types, items = anything } = shape;
  if (types === undefined) return value;
  if (!types.includes('array'))
    return Array.isArray(value) ? repeated : typeof value === 'string' ? readScalar(shape, value) : value;
  if (isDelimited && Array.isArray(value)) return repeated;
  const texts =
    isDelimited && typeof value === 'string' ? value.split(',').map((item) => item.trim()) : [value].flat();
  const [alone] = texts.length === 1 ? texts.map((text) => readScalar(shape, text)) : [];
  // One value is an array only if it can be nothing else.
  const isAlone = types.some((type) => type !== 'array' && type !== 'null') && alone !== undefined;
  return isAlone && (typeof alone === 'bigint' || shape.accepts(alone))
    ? alone
    : texts.map((text) => readScalar(items, text));
}

/** Reads a text as one of some types; it stays a text if it has the form of none. */
function readScalar({ types = [] }: Shape, text: unknown): unknown {
  if (typeof text !== 'string') return text;
  if (types.includes('boolean') && (text === 'true' || text === 'false')) return text === 'true';
  const integer = types.includes('integer') ? parseDecimal(text) : undefined;
  if (integer !== undefined) return Number.isSafeInteger(Number(integer)) ? Number(integer) : integer;
  return types.includes('number') && decimalNumber.test(text) ? Number(text) : text;
}
