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

/** Adds a value to those of a name. */
export function addTo<Value>(found: Map<string, Value[]>, name: string, value: Value): void {
  const known = found.get(name);
  if (known === undefined) found.set(name, [value]);
  else known.push(value);
}

/** The values by their names: alone, or as an array. */
export function toValues(found: ReadonlyMap<string, readonly unknown[]>): Values {
  return Object.fromEntries([...found].map(([name, all]) => [name, all.length === 1 ? all[0] : all]));
}

/** Returns the function that reads texts in place, as far as they have the form of their types. */
export function createTextReader(all: readonly Named[], parseJson?: ParseJson): (values: Values) => void {
  const names = new Set(all.map(({ name }) => name));
  // A property of a spread object may have the name of a deep one.
  const ordered = [...all].sort((a, b) => Number(a.kind === 'deep') - Number(b.kind === 'deep'));
  const readers = ordered.flatMap((one) => {
    const { name, kind, shape } = one;
    if (kind === 'spread') return [objectReader(one, (key) => (isOf(shape, key, names) ? key : undefined))];
    if (kind === 'deep') return [objectReader(one, (key) => propertyIn(key, `${name}[`))];
    const read = readerOf(one, parseJson);
    if (read === undefined) return [];
    return (values: Values) => {
      if (Object.hasOwn(values, name)) values[name] = read(values[name]);
    };
  });
  return (values) => {
    for (const read of readers) read(values);
  };
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

/** Returns the function that collects the properties of an object from values of other names. */
function objectReader(
  { name, shape }: Named,
  propertyOfKey: (key: string) => string | undefined,
): (values: Values) => void {
  return (values) => {
    let object: object | undefined;
    for (const key of Object.keys(values)) {
      const property = propertyOfKey(key);
      if (property === undefined) continue;
      setOwn((object ??= {}), property, readProperty(shape, property, values[key]));
      Reflect.deleteProperty(values, key);
    }
    // A text of this name belongs to no parameter.
    if (object !== undefined && !Object.hasOwn(values, name)) values[name] = object;
  };
}

/** Returns the function that reads one value; items that commas separate are already those of an array, but in headers. */
export function readerOf(one: Named, parseJson?: ParseJson): ((given: unknown) => unknown) | undefined {
  const { kind, shape, isDelimited } = one;
  const isArray = shape.types?.includes('array') === true;
  if (kind === 'file') return isArray ? (given) => [given].flat() : undefined;
  if (kind === 'json' && parseJson !== undefined) {
    const parse = (given: unknown) =>
      typeof given === 'string' ? parseJson(given) : !isArray && Array.isArray(given) ? repeated : given;
    // Each item is a field of its own; some clients send one field with all of them.
    return isArray ? (given) => [given].flat().flatMap(parse) : parse;
  }
  return shape.types?.includes('object') === true && isDelimited
    ? pairsReader(shape)
    : textReader(shape, isDelimited);
}

/** Reads an object of one text, as in `color,red,size,3`. */
function pairsReader(shape: Shape): (given: unknown) => unknown {
  return (given) => {
    const texts = itemsOf(given, true);
    if (texts === repeated) return repeated;
    if (texts.length % 2 === 1) return texts.join();
    const found = new Map<string, unknown[]>();
    for (let i = 0; i < texts.length; i += 2) addTo(found, texts[i]!, texts[i + 1]);
    const properties = Object.entries(toValues(found));
    return Object.fromEntries(properties.map(([name, text]) => [name, readProperty(shape, name, text)]));
  };
}

function readProperty(shape: Shape, name: string, given: unknown): unknown {
  const read = textReader(propertyOf(shape, name), false);
  return read === undefined ? given : read(given);
}

/** Returns the function that reads a text as its type, if it has that form; undefined for a value of any type. */
function textReader(shape: Shape, isDelimited: boolean): ((given: unknown) => unknown) | undefined {
  const { types, items = anything } = shape;
  if (types === undefined) return undefined;
  if (!types.includes('array')) {
    const read = scalarReader(shape);
    return (given) => {
      if (Array.isArray(given)) return repeated;
      return typeof given === 'string' && read ? read(given) : given;
    };
  }
  const isAlone = types.some((type) => type !== 'array' && type !== 'null');
  const [readAlone, read] = [shape, items].map((one) => scalarReader(one) ?? ((text: string) => text));
  return (given) => {
    const texts = itemsOf(given, isDelimited);
    if (texts === repeated) return repeated;
    const alone = isAlone && texts.length === 1 ? readAlone!(texts[0]!) : undefined;
    // One value is an array only if it can be nothing else.
    const fits = typeof alone === 'bigint' || shape.accepts(alone);
    return alone !== undefined && fits ? alone : texts.map(read!);
  };
}

/** The texts of the items of an array: one for each time that it was sent, or the parts of one text. */
function itemsOf(given: unknown, isDelimited: boolean): string[] | typeof repeated {
  if (!isDelimited) return [given].flat() as string[];
  // Commas are read before texts are decoded, except in headers; a repeated one has an array for each time.
  if (Array.isArray(given)) return given.some(Array.isArray) ? repeated : (given as string[]);
  // RFC 9110 section 5.6.1 allows spaces around the commas of a header.
  return (given as string).split(',').map((part) => part.trim());
}

/** Readers of texts as values of some types. A text that does not have the form of the type stays a text. */
const scalarReaders = {
  boolean: (text: string) => (text === 'true' ? true : text === 'false' ? false : text),
  integer: (text: string) => {
    const value = parseDecimal(text);
    if (value === undefined) return text;
    return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  },
  number: (text: string) => (decimalNumber.test(text) ? Number(text) : text),
};

function scalarReader({ types = [] }: Shape): ((text: string) => unknown) | undefined {
  const readers = (['boolean', 'integer', 'number'] as const)
    .filter((type) => types.includes(type))
    .map((type) => scalarReaders[type]);
  if (readers.length === 0) return undefined;
  return (text) => readers.reduce<unknown>((value, read) => (value === text ? read(text) : value), text);
}
