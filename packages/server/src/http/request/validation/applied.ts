// Finds the schemas that apply to a value and to its parts because one schema does (JSON Schema 2020-12 core, section 10).
import { patternOf } from '../../../contract/schema/pattern.js';
import { mapSchemas, type Schema } from '../../../contract/schema/schema.js';
import { absent, shapeOf } from '../../../contract/schema/shape.js';

const none: readonly Schema[] = [];

/** Whether a value is an object of JSON. */
export function isObject(data: unknown): data is object {
  return typeof data === 'object' && data !== null && !Array.isArray(data);
}

const lifted = new WeakMap<Schema, Schema>();
/** The keywords whose schemas apply to the value itself, if they match. */
const applying = [...(['allOf', 'anyOf', 'oneOf', 'then', 'else', 'dependentSchemas'] as const)];

/** A schema that does not require, in any of its parts, what another one makes absent (`readOnly`). */
export function withoutAbsent(schema: Schema): Schema {
  let result = lifted.get(schema);
  if (result === undefined) {
    const { properties } = shapeOf(schema);
    const names = Object.keys(properties).filter((name) => properties[name] === absent);
    lifted.set(schema, (result = names.length === 0 ? schema : without(schema, names)));
  }
  return result;
}

function without(schema: Schema, names: readonly string[]): Schema {
  const { required = [] } = schema;
  let isSame = !required.some((name) => names.includes(name));
  const parts = mapSchemas(schema, applying, (part) => {
    const result = without(part, names);
    isSame &&= result === part;
    return result;
  });
  return isSame
    ? schema
    : { ...schema, required: required.filter((name) => !names.includes(name)), ...parts };
}

/**
 * The schemas that apply to a value because some do: all parts of `allOf`, the alternatives that match, and so on.
 * @param matches - Whether an alternative or a condition matches the value.
 * @param countsConditions - Whether an `if` that matches counts, too: it only describes.
 */
export function appliedTo(
  data: unknown,
  schemas: readonly Schema[],
  matches: (part: Schema) => boolean,
  countsConditions = false,
): readonly Schema[] {
  if (schemas.every(isSimple)) return schemas;
  const all = new Set(schemas.map(withoutAbsent));
  const add = (part: Schema | undefined) => part && all.add(part);
  for (const { allOf = none, anyOf = none, oneOf = none, dependentSchemas = {}, ...others } of all) {
    for (const part of allOf) add(part);
    for (const part of [...anyOf, ...oneOf]) if (matches(part)) add(part);
    const { if: condition, then, else: otherwise } = others;
    if (condition !== undefined) {
      const isMatch = matches(condition);
      add(isMatch ? then : otherwise);
      if (isMatch && countsConditions) add(condition);
    }
    for (const name of isObject(data) ? Object.keys(dependentSchemas) : [])
      if (Object.hasOwn(data as object, name)) add(dependentSchemas[name]);
  }
  return [...all];
}

function isSimple(schema: Schema): boolean {
  return (schema.allOf ?? schema.anyOf ?? schema.oneOf ?? schema.if ?? schema.dependentSchemas) === undefined;
}

/**
 * The schemas of a part of an object or array, by one of its schemas.
 * @param key - The name of a property, or the index of an item.
 */
export function partsAt(schema: Schema, owner: object, key: string): readonly Schema[] {
  if (Array.isArray(owner)) {
    const item = schema.prefixItems?.[Number(key)] ?? schema.items;
    return item === undefined ? none : [item];
  }
  const { properties, patternProperties, additionalProperties } = schema;
  const parts = properties !== undefined && Object.hasOwn(properties, key) ? [properties[key]!] : [];
  if (patternProperties !== undefined)
    for (const [pattern, part] of Object.entries(patternProperties))
      if (patternOf(pattern).test(key)) parts.push(part);
  return parts.length === 0 && additionalProperties !== undefined ? [additionalProperties] : parts;
}

/** Whether a schema describes a part of an object or array, by itself or by those that it combines (section 11). */
export function evaluates(
  schema: Schema,
  data: object,
  key: string,
  matches: (part: Schema, value: unknown) => boolean,
): boolean {
  const applied = appliedTo(data, [schema], (part) => matches(part, data), true);
  return applied.some((part) => {
    const { contains, unevaluatedItems, unevaluatedProperties } = part;
    const rest = Array.isArray(data) ? unevaluatedItems : unevaluatedProperties;
    if ((rest !== undefined && part !== schema) || partsAt(part, data, key).length > 0) return true;
    return Array.isArray(data) && contains !== undefined && matches(contains, data[Number(key)]);
  });
}
