// Finds out which properties and items a schema evaluates, with those that it combines (JSON Schema 2020-12 core, section 11).
import { patternOf } from '../../../contract/schema/pattern.js';
import type { Schema } from '../../../contract/schema/schema.js';
import { atPart, type At, type Verdict } from './verdict.js';

/**
 * Whether a schema that applies to an object or array evaluates a part of it.
 * @param key - The name of a property, or the index of an item.
 */
export function evaluates(verdict: Verdict, schema: Schema, data: object, key: string, at: At): boolean {
  const isOfAny = (parts: readonly (Schema | undefined)[] = []) =>
    parts.some((part) => part !== undefined && evaluates(verdict, part, data, key, at));
  const isValid = (part: Schema) => verdict.judge(part, data, at).isValid;
  const { if: condition, then, else: otherwise, dependentSchemas = {} } = schema;
  return (
    (Array.isArray(data)
      ? evaluatesItem(verdict, schema, data, Number(key), at)
      : evaluatesProperty(schema, key)) ||
    isOfAny(schema.allOf) ||
    isOfAny(schema.anyOf?.filter(isValid)) ||
    isOfAny(schema.oneOf?.filter(isValid)) ||
    (condition !== undefined && isOfAny(isValid(condition) ? [condition, then] : [otherwise])) ||
    isOfAny(
      Object.entries(dependentSchemas).map(([name, part]) => (Object.hasOwn(data, name) ? part : undefined)),
    )
  );
}

function evaluatesProperty(schema: Schema, name: string): boolean {
  const { properties = {}, patternProperties = {} } = schema;
  return (
    (schema.additionalProperties ?? schema.unevaluatedProperties) !== undefined ||
    Object.hasOwn(properties, name) ||
    Object.keys(patternProperties).some((pattern) => patternOf(pattern).test(name))
  );
}

function evaluatesItem(verdict: Verdict, schema: Schema, data: unknown[], index: number, at: At): boolean {
  const { prefixItems = [], contains } = schema;
  return (
    (schema.items ?? schema.unevaluatedItems) !== undefined ||
    index < prefixItems.length ||
    (contains !== undefined && verdict.judge(contains, data[index], atPart(at, data, index)).isValid)
  );
}
