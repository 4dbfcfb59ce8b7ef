// Reads parameters and fields of forms, which are texts, as the types that their schemas name.
import { isInexact, parseDecimal, setOwn } from '../../contract/document/exact-json.js';
import type { TextForm } from '../../contract/parameters.js';
import { decimalNumber } from '../../contract/schema/json-types.js';
import { anything, propertyOf, type Shape } from '../../contract/schema/shape.js';

/** Texts by their names, an array where a name is repeated; and the values that they are read as. */
export type Values = Record<string, unknown>;

/** Stands for a value that occurs more often than it may: no schema allows it. */
export const repeated = Symbol('is repeated: send it once');

/** The fault of a text that could not be read, if a value stands for one; other symbols are numbers. */
export function unreadable(value: unknown): string | undefined {
  return isInexact(value) && value.description!.startsWith('is ') ? value.description : undefined;
}

/** A parameter or a field. */
export interface Named extends TextForm {
  readonly name: string;
  readonly shape: Shape;
}

/** Parses the JSON of a parameter or field. @returns A symbol that describes the fault, if it is malformed. */
export type ParseJson = (text: string) => unknown;

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

/** Returns the function that reads texts in place, as far as they have the form of their types. */
export function createTextReader(all: readonly Named[], parseJson?: ParseJson): (values: Values) => void {
  const names = new Set(all.map(({ name }) => name));
  // A property of a spread object may have the name of a deep one.
  const ordered = [...all].sort((a, b) => Number(a.kind === 'deep') - Number(b.kind === 'deep'));
  return (values) => {
    for (const named of ordered) {
      const { name, kind } = named;
      if (kind === 'spread' || kind === 'deep') gather(named, values, names);
      else if (Object.hasOwn(values, name)) values[name] = readTexts(named, values[name], parseJson);
    }
  };
}

/** Collects the properties of an object from values of other names. */
function gather({ name, kind, shape }: Named, values: Values, names: ReadonlySet<string>): void {
  const object = {};
  for (const key of Object.keys(values)) {
    const property = kind === 'deep' ? propertyIn(key, `${name}[`) : key;
    if (property === undefined || (kind === 'spread' && !isOf(shape, key, names))) continue;
    setOwn(object, property, readText(propertyOf(shape, property), values[key], false));
    Reflect.deleteProperty(values, key);
  }
  // A text of this name belongs to no parameter.
  if (Object.keys(object).length > 0 && !Object.hasOwn(values, name)) values[name] = object;
}

/** Whether a name in a query is that of a property of a spread object, and not of another parameter. */
function isOf({ properties, additional = false }: Shape, key: string, names: ReadonlySet<string>): boolean {
  return Object.hasOwn(properties, key) || (additional !== false && !names.has(key));
}

/** The property that a name such as `filter[color]` is of. */
function propertyIn(key: string, start: string): string | undefined {
  const property = key.slice(start.length, -1);
  return key.startsWith(start) && key.endsWith(']') && !/[[\]]/.test(property) ? property : undefined;
}

/** Reads one value; items that commas separate are already those of an array, but in headers. */
export function readTexts(
  { kind, shape, isDelimited }: Omit<Named, 'name'>,
  value: unknown,
  parseJson?: ParseJson,
): unknown {
  const isArray = shape.types?.includes('array') === true;
  if (kind === 'file') return isArray ? [value].flat() : value;
  if (kind === 'json' && parseJson !== undefined) {
    const parse = (text: unknown) =>
      typeof text === 'string' ? parseJson(text) : !isArray && Array.isArray(text) ? repeated : text;
    // Each item is a field of its own; some clients send one field with all of them.
    return isArray ? [value].flat().flatMap(parse) : parse(value);
  }
  return shape.types?.includes('object') === true && isDelimited
    ? readPairsOf(shape, value)
    : readText(shape, value, isDelimited);
}

/** Reads an object of one text, as in `color,red,size,3`. */
function readPairsOf(shape: Shape, value: unknown): unknown {
  const texts = itemsOf(value, true);
  if (texts === repeated) return repeated;
  if (texts.length % 2 === 1) return texts.join();
  const pairs = texts.flatMap((name, i) => (i % 2 === 0 ? [[name, texts[i + 1]] as const] : []));
  const properties = Object.entries(byName(pairs));
  return Object.fromEntries(
    properties.map(([name, text]) => [name, readText(propertyOf(shape, name), text, false)]),
  );
}

/** Reads a text as its type, if it has that form. */
function readText(shape: Shape, value: unknown, isDelimited: boolean): unknown {
  const { types, items = anything } = shape;
  if (types === undefined) return value;
  if (!types.includes('array'))
    return Array.isArray(value) ? repeated : typeof value === 'string' ? readScalar(shape, value) : value;
  const texts = itemsOf(value, isDelimited);
  if (texts === repeated) return repeated;
  const [alone] = texts.length === 1 ? texts.map((text) => readScalar(shape, text)) : [];
  // One value is an array only if it can be nothing else.
  const isAlone = types.some((type) => type !== 'array' && type !== 'null') && alone !== undefined;
  return isAlone && (typeof alone === 'bigint' || shape.accepts(alone))
    ? alone
    : texts.map((text) => readScalar(items, text));
}

/** The texts of the items of an array: one for each time that it was sent, or the parts of one text. */
function itemsOf(value: unknown, isDelimited: boolean): string[] | typeof repeated {
  if (!isDelimited) return [value].flat() as string[];
  // Commas are read before texts are decoded, except in headers; a repeated one has an array for each time.
  if (Array.isArray(value)) return value.some(Array.isArray) ? repeated : (value as string[]);
  // RFC 9110 section 5.6.1 allows spaces around the commas of a header.
  return (value as string).split(',').map((part) => part.trim());
}

/** Reads a text as one of some types; it stays a text if it has the form of none. */
function readScalar({ types = [] }: Shape, text: string): unknown {
  if (types.includes('boolean') && (text === 'true' || text === 'false')) return text === 'true';
  const integer = types.includes('integer') ? parseDecimal(text) : undefined;
  if (integer !== undefined) return Number.isSafeInteger(Number(integer)) ? Number(integer) : integer;
  return types.includes('number') && decimalNumber.test(text) ? Number(text) : text;
}
