// Converts validated values to what handlers expect: exact integers, doubles and defaults.
import { anything, unknownDepth, type Shape } from '../../../contract/schema/shape.js';
import { UploadedFile } from '../../../contract/raw-body.js';
import { isInexact, setOwn, toDouble } from '../../../contract/document/exact-json.js';

/** Converts a value, in place as far as it is an object or array; adds a message for what cannot be kept exactly. */
export type Converter = (value: unknown, place: string, faults: string[]) => unknown;

/** The converters of objects and arrays, made when they are first needed: shapes may contain themselves. */
const converters = new WeakMap<Shape, Converter>();

/**
 * Creates the converter of a value that has passed validation.
 * @returns undefined if such a value is a scalar that is already what a handler expects.
 */
export function createConverter(shape: Shape): Converter | undefined {
  if (shape === anything) return exact;
  if (shape.types?.some((type) => type === 'object' || type === 'array') === false)
    return scalarConverter(shape);
  let converter = converters.get(shape);
  if (converter !== undefined) return converter;
  let found: Converter | undefined;
  converter = (value, place, faults) => {
    found ??= valueConverter(shape) ?? ((given) => given);
    return found(value, place, faults);
  };
  converters.set(shape, converter);
  return converter;
}

function valueConverter(shape: Shape): Converter | undefined {
  const { types } = shape;
  const ofScalar = scalarConverter(shape);
  const ofObject = types?.includes('object') === false ? undefined : objectConverter(shape);
  const ofArray = types?.includes('array') === false ? undefined : arrayConverter(shape);
  if (ofObject === undefined && ofArray === undefined) return ofScalar;
  return (value, place, faults) => {
    const isContainer = typeof value === 'object' && value !== null;
    const convert = isContainer ? (Array.isArray(value) ? ofArray : ofObject) : ofScalar;
    return convert === undefined ? value : convert(value, place, faults);
  };
}

function scalarConverter({ types, number }: Shape): Converter | undefined {
  if (number === 'int64') {
    const convert: Converter = (value) =>
      typeof value === 'number' || typeof value === 'bigint' ? BigInt(value) : value;
    if (types !== undefined) return convert;
    // Only one alternative says that it is an int64.
    return (value, place, faults) =>
      Number.isSafeInteger(value) ? convert(value, place, faults) : exact(value, place, faults);
  }
  if (number === 'either') return (value) => (isInexact(value) ? toDouble(value) : value);
  if (number === 'double') {
    return (value, place, faults) => {
      if (typeof value === 'bigint' || isInexact(value)) return toDouble(value);
      return types === undefined ? exact(value, place, faults) : value;
    };
  }
  return types === undefined ? exact : undefined;
}

function objectConverter({ properties, additional }: Shape): Converter | undefined {
  const named = Object.entries(properties).flatMap(([name, shape]) => {
    const convert = createConverter(shape);
    const fill = defaultOf(shape);
    return convert === undefined && fill === undefined ? [] : [{ name, convert, fill }];
  });
  const rest = additional === false ? undefined : createConverter(additional ?? anything);
  if (named.length === 0 && rest === undefined) return undefined;
  return (value, place, faults) => {
    const object = value as Record<string, unknown>;
    for (const { name, convert, fill } of named) {
      if (!Object.hasOwn(object, name)) {
        if (fill !== undefined) setOwn(object, name, fill());
      } else if (convert !== undefined) {
        setOwn(object, name, convert(object[name], inside(place, name), faults));
      }
    }
    if (rest === undefined) return object;
    for (const name of Object.keys(object)) {
      if (Object.hasOwn(properties, name)) continue;
      const given = object[name];
      const converted = rest(given, inside(place, name), faults);
      if (converted !== given) setOwn(object, name, converted);
    }
    return object;
  };
}

function arrayConverter({ items = anything }: Shape): Converter | undefined {
  const convert = createConverter(items);
  if (convert === undefined) return undefined;
  return (value, place, faults) => {
    const array = value as unknown[];
    for (const [i, item] of array.entries()) array[i] = convert(item, inside(place, i), faults);
    return array;
  };
}

/** Checks a value about which the contract says nothing: what cannot be kept exactly is a fault. */
const exact: Converter = (value, place, faults) => {
  checkExact(value, place, faults, 0);
  return value;
};

function checkExact(value: unknown, place: string, faults: string[], depth: number): void {
  const fault = (text: string) => faults.push(`${place === '' ? 'it' : place} ${text}`);
  if (value instanceof UploadedFile || ArrayBuffer.isView(value)) return;
  if (typeof value === 'object' && value !== null) {
    const inner = depth === unknownDepth ? [] : Object.entries(value);
    for (const [name, item] of inner) checkExact(item, inside(place, name), faults, depth + 1);
    if (depth === unknownDepth) fault(`is nested more than ${unknownDepth} levels deep`);
  } else if (isInexact(value) || (typeof value === 'number' && !Number.isFinite(value))) {
    fault('is a number with more digits than the server keeps: send it as a string');
  } else if (typeof value === 'string' && !value.isWellFormed()) {
    fault('must not contain unpaired surrogates');
  }
}

/** Returns the function that makes the value of an absent property; undefined if there is none. */
function defaultOf(shape: Shape): (() => unknown) | undefined {
  if (shape.default === undefined) return undefined;
  const convert = createConverter(shape);
  return () => {
    const value: unknown = typeof shape.default === 'object' ? structuredClone(shape.default) : shape.default;
    return convert === undefined ? value : convert(value, '', []);
  };
}

function inside(place: string, name: string | number): string {
  const short = String(name).slice(0, 64).toWellFormed();
  return place === '' ? short : `${place}.${short}`;
}
