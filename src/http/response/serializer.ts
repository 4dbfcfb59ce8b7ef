// Serializes response bodies that Fastify cannot: of unknown parts, of scalars, with alternatives, and with exact integers
// anywhere.
import type { Schema } from '../../contract/schema.js';
import { absent, propertyOf, Shapes, type Choice, type Shape } from '../../contract/shape.js';

/** Returns the schema for Fastify's serializer; undefined if the body is a scalar, or a part of it is not plain. */
export function serializable(shape: Shape): object | undefined {
  const isContainer = shape.types?.some((type) => type === 'object' || type === 'array') ?? false;
  return isContainer && isPlain(shape) ? plain(shape) : undefined;
}

/**
 * Whether every part of a value has one type, apart from null, and every property a name that objects do not inherit:
 * Fastify's serializer tries the types of a union without bigint, and reads inherited properties.
 */
function isPlain(shape: Shape, outer: readonly Shape[] = []): boolean {
  if (shape === absent) return true;
  if (shape.choice !== undefined || outer.includes(shape)) return false;
  const isPlainInside = (one: Shape) => isPlain(one, [...outer, shape]);
  const { types, properties, additional, items } = shape;
  if (types?.filter((type) => type !== 'null').length !== 1) return false;
  if (types.includes('array')) return items !== undefined && isPlainInside(items);
  if (!types.includes('object')) return true;
  const named = Object.entries(properties);
  const isMap = additional === undefined && named.length === 0;
  if (isMap || (additional && !isPlainInside(additional))) return false;
  return named.every(([name, one]) => !(name in Object.prototype) && isPlainInside(one));
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

/** Compiles a schema to a predicate: whether a value is valid. */
export type MatcherOf = (schema: Schema) => (value: unknown) => boolean;

/**
 * Creates the function that turns a body into JSON. Like Fastify's, it leaves out properties that the schema does not
 * name, unless it describes additional ones or names none. Of alternatives, the first one that matches counts.
 * @returns A function that throws TypeError if the body lacks a required property, or matches no alternative.
 */
export function createSerializer(shape: Shape, matcherOf: MatcherOf): (value: unknown) => string {
  const writer = new Writer(matcherOf);
  return (value) => writer.write(value, shape) ?? 'null';
}

class Writer {
  readonly #matcherOf: MatcherOf;
  readonly #shapes = new Shapes();
  readonly #matchers = new Map<Schema, (value: unknown) => boolean>();

  constructor(matcherOf: MatcherOf) {
    this.#matcherOf = matcherOf;
  }

  /** Returns undefined for what JSON leaves out. */
  write(given: unknown, general: Shape | undefined): string | undefined {
    if (general === absent) return undefined;
    const value = hasToJson(given) ? given.toJSON() : given;
    if (typeof value === 'bigint') return value.toString();
    if (typeof value !== 'object' || value === null) return JSON.stringify(value);
    const shape = general && this.#choose(value, general);
    if (Array.isArray(value))
      return `[${value.map((item) => this.write(item, shape?.items) ?? 'null').join(',')}]`;
    const { properties = {}, required = [], additional } = shape ?? {};
    const missing = required.find(
      (name) => !Object.hasOwn(value, name) || (value as Record<string, unknown>)[name] === undefined,
    );
    if (missing !== undefined) throw new TypeError(`${JSON.stringify(missing)} is required`);
    const isOpen = additional !== undefined || Object.keys(properties).length === 0;
    const fields = Object.entries(value)
      .filter(([name]) => isOpen || Object.hasOwn(properties, name))
      .flatMap(([name, item]) => {
        const text = this.write(item, shape && propertyOf(shape, name));
        return text === undefined ? [] : [`${JSON.stringify(name)}:${text}`];
      });
    return `{${fields.join(',')}}`;
  }

  /** Returns the shape of the alternatives that a value has. @throws TypeError if it has none. */
  #choose(value: object, general: Shape): Shape {
    let shape = general;
    while (shape.choice !== undefined) {
      const { base, groups }: Choice = shape.choice;
      shape = groups.reduce((one, group) => {
        const found = group.find((schema) => this.#matches(schema as Schema, value));
        if (found === undefined) throw new TypeError('the body has none of the alternatives of its schema');
        return this.#shapes.merge(one, found.shape, () => undefined);
      }, base);
    }
    return shape;
  }

  #matches(schema: Schema, value: object): boolean {
    const matches = this.#matchers.get(schema) ?? this.#matcherOf(schema);
    this.#matchers.set(schema, matches);
    return matches(value);
  }
}

function hasToJson(value: unknown): value is { toJSON(): unknown } {
  return typeof (value as { toJSON?: unknown } | null | undefined)?.toJSON === 'function';
}
