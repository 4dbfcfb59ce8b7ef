// Reads parameters and fields of forms, which are texts, as the types that their schemas name.
import { isInexact, parseDecimal, setOwn } from '../../contract/document/exact-json.js';
import type { TextForm } from '../../contract/parameters.js';
import { decimalNumber, typeOf } from '../../contract/schema/json-types.js';
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
  // A property of a spread object may have the name of a deep one.
  const ordered = [...all].sort((a, b) => Number(a.kind === 'deep') - Number(b.kind === 'deep'));
  const readers = ordered.flatMap((one) => {
    if (one.kind === 'spread') return [spreadReader(one, new Set(all.map(({ name }) => name)))];
    if (one.kind === 'deep') return [deepReader(one)];
    const read = readerOf(one, parseJson);
    if (read === undefined) return [];
    return (values: Values) => {
      if (Object.hasOwn(values, one.name)) values[one.name] = read(values[one.name]);
    };
  });
  return (values) => {
    for (const read of readers) read(values);
  };
}

/** Returns the function that reads one value; items that commas separate are already those of an array, but in headers. */
export function readerOf(one: Named, parseJson?: ParseJson): ((given: unknown) => unknown) | undefined {
  const { kind, shape, separator } = one;
  const isArray = shape.types?.includes('array') === true;
  if (kind === 'file') return isArray ? (given) => [given].flat() : undefined;
  if ((kind === 'json' || kind === 'either') && parseJson !== undefined) {
    const readOne = kind === 'json' ? parseJson : eitherReader(isArray ? shape.items! : shape, parseJson);
    const parse = (given: unknown) =>
      typeof given === 'string' ? readOne(given) : !isArray && Array.isArray(given) ? repeated : given;
    // Each item is a field of its own; some clients send one field with all of them.
    return isArray ? (given) => [given].flat().flatMap(parse) : parse;
  }
  if (shape.types?.includes('object') === true && separator !== undefined)
    return pairsReader(shape, separator);
  return textReader(shape, separator);
}

/** Returns the function that reads JSON of one of the types of a shape, and every other text as one. */
function eitherReader(shape: Shape, parse: (text: string) => unknown): (text: string) => unknown {
  const readText = scalarReader(shape) ?? ((text: string) => text);
  return (text) => {
    if (!/^\s*[{[]/.test(text)) return readText(text);
    const value = parse(text);
    return shape.types?.includes(typeOf(value)) ? value : text;
  };
}

/** Collects the properties of an object whose names are parameters. */
function spreadReader({ name, shape }: Named, others: ReadonlySet<string>): (values: Values) => void {
  const { properties, additional } = shape;
  const isOwn = (key: string) =>
    Object.hasOwn(properties, key) || (additional !== undefined && additional !== false && !others.has(key));
  return (values) => {
    const found = Object.keys(values).filter(isOwn);
    if (found.length === 0) return;
    const object = {};
    for (const key of found) {
      setOwn(object, key, readProperty(shape, key, values[key]));
      Reflect.deleteProperty(values, key);
    }
    // A text of this name belongs to no parameter.
    if (!Object.hasOwn(values, name)) values[name] = object;
  };
}

/** Collects the properties of an object whose names are as in `filter[color]`. */
function deepReader({ name, shape }: Named): (values: Values) => void {
  const start = `${name}[`;
  return (values) => {
    if (Object.hasOwn(values, name)) return;
    const object = {};
    for (const key of Object.keys(values)) {
      const property = key.slice(start.length, -1);
      if (!key.startsWith(start) || !key.endsWith(']') || /[[\]]/.test(property)) continue;
      setOwn(object, property, readProperty(shape, property, values[key]));
      Reflect.deleteProperty(values, key);
      values[name] = object;
    }
  };
}

/** Reads an object of one text, as in `color,red,size,3`. */
function pairsReader(shape: Shape, separator: string): (given: unknown) => unknown {
  return (given) => {
    // A repeated parameter has one array for each time.
    const texts = given as string[] | string[][];
    if (!texts.every((text) => typeof text === 'string')) return repeated;
    if (texts.length % 2 === 1) return texts.join(separator);
    const found = new Map<string, string[]>();
    for (let i = 0; i < texts.length; i += 2) addTo(found, texts[i]!, texts[i + 1]!);
    return Object.fromEntries(
      Object.entries(toValues(found)).map(([name, text]) => [name, readProperty(shape, name, text)]),
    );
  };
}

function readProperty(shape: Shape, name: string, given: unknown): unknown {
  const read = textReader(propertyOf(shape, name), undefined);
  return read === undefined ? given : read(given);
}

/** Returns the function that reads a text as its type, if it has that form; undefined for a value of any type. */
function textReader(shape: Shape, separator: string | undefined): ((given: unknown) => unknown) | undefined {
  const isArray = shape.types?.includes('array') ?? false;
  const read = scalarReader(isArray ? (shape.items ?? anything) : shape);
  if (!isArray) {
    if (shape.types === undefined) return undefined;
    return (given) => {
      if (Array.isArray(given)) return repeated;
      return typeof given === 'string' && read ? read(given) : given;
    };
  }
  return (given) => {
    const isRepeated =
      Array.isArray(given) && (separator !== ',' || given.some((part) => Array.isArray(part)));
    if (separator !== undefined && isRepeated) return repeated;
    const texts = [given].flat() as string[];
    const isSplit = separator === undefined || (separator === ',' && Array.isArray(given));
    const items = isSplit ? texts : texts.flatMap((text) => text.split(separator));
    // RFC 9110 section 5.6.1 allows spaces around the commas of a header.
    if (!isSplit && separator === ',') items.forEach((item, i) => (items[i] = item.trim()));
    return read === undefined ? items : items.map(read);
  };
}

/** Readers of texts as values of some types. A text that has not the form of the type stays a text. */
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
  if (readers.length < 2) return readers[0];
  return (text) => readers.reduce<unknown>((value, read) => (value === text ? read(text) : value), text);
}
