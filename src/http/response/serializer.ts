// Serializes response bodies that Fastify cannot: of unknown parts, of scalars, and with exact integers anywhere.
import { absent, propertyOf, type Shape } from '../../contract/shape.js';

/** Turns the body that a handler returns into JSON. @throws TypeError if it lacks a required property. */
export type Serializer = (value: unknown) => string;

/** Returns the schema for Fastify's serializer; undefined if the body is a scalar, or a part of it is not plain. */
export function serializable(shape: Shape): object | undefined {
  const isContainer = shape.types?.some((type) => type === 'object' || type === 'array') ?? false;
  return isContainer && isPlain(shape) ? plain(shape) : undefined;
}

/**
 * Whether every part of a value has one type, apart from null, and every property a name that objects do not inherit:
 * Fastify's serializer tries the types of a union without bigint, and reads inherited properties.
 */
function isPlain(shape: Shape): boolean {
  if (shape === absent) return true;
  const { types, properties, additional, items } = shape;
  if (types?.filter((type) => type !== 'null').length !== 1) return false;
  if (types.includes('array')) return items !== undefined && isPlain(items);
  if (!types.includes('object')) return true;
  const named = Object.entries(properties);
  const isMap = additional === undefined && named.length === 0;
  if (isMap || (additional && !isPlain(additional))) return false;
  return named.every(([name, one]) => !(name in Object.prototype) && isPlain(one));
}

function plain({ types = [], properties, required, additional, items }: Shape): object {
  return {
    type: types.find((type) => type !== 'null'),
    ...(types.includes('null') && { nullable: true }),
    ...(types.includes('object') && {
      properties: Object.fromEntries(
        Object.entries(properties).flatMap(([name, shape]) =>
          shape === absent ? [] : [[name, plain(shape)]],
        ),
      ),
      required,
      ...(additional && { additionalProperties: plain(additional) }),
    }),
    ...(items !== undefined && { items: plain(items) }),
  };
}

/**
 * Creates the serializer of a body. Like Fastify's, it leaves out properties that the schema does not name, unless it
 * describes additional ones or names none.
 */
export function createSerializer(shape: Shape): Serializer {
  return (value) => write(value, shape) ?? 'null';
}

/** Returns undefined for what JSON leaves out. */
function write(given: unknown, shape: Shape | undefined): string | undefined {
  if (shape === absent) return undefined;
  const value = hasToJson(given) ? given.toJSON() : given;
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item) => write(item, shape?.items) ?? 'null').join(',')}]`;
  const { properties = {}, required = [], additional } = shape ?? {};
  const missing = required.find(
    (name) => !Object.hasOwn(value, name) || (value as Record<string, unknown>)[name] === undefined,
  );
  if (missing !== undefined) throw new TypeError(`${JSON.stringify(missing)} is required`);
  const isOpen = additional !== undefined || Object.keys(properties).length === 0;
  const fields = Object.entries(value)
    .filter(([name]) => isOpen || Object.hasOwn(properties, name))
    .flatMap(([name, item]) => {
      const text = write(item, shape && propertyOf(shape, name));
      return text === undefined ? [] : [`${JSON.stringify(name)}:${text}`];
    });
  return `{${fields.join(',')}}`;
}

function hasToJson(value: unknown): value is { toJSON(): unknown } {
  return typeof (value as { toJSON?: unknown } | null | undefined)?.toJSON === 'function';
}
