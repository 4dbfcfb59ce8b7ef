// Reads the keywords of a schema that describe the items of arrays and the properties of objects.
import { checkName, checkPattern, count } from './keywords.js';
import type { Place } from './place.js';
import { isOfRequests, type Schema, type Use } from './schema.js';
import { absent } from './shape.js';

/** Normalizes a schema inside the one that is being read. */
export type Normalize = (place: Place) => Schema;

/** Reads the schema of a keyword, if it is there. */
export function readSchema<Keyword extends keyof Schema>(
  place: Place,
  keyword: Keyword,
  normalize: Normalize,
): Partial<Record<Keyword, Schema>> {
  if (!place.has(keyword)) return {};
  return { [keyword]: normalize(place.at(keyword)) } as Partial<Record<Keyword, Schema>>;
}

/** Reads the schemas of a keyword by name, if it is there. */
export function readNamed<Keyword extends keyof Schema>(
  place: Place,
  keyword: Keyword,
  normalize: Normalize,
): Partial<Record<Keyword, Record<string, Schema>>> {
  if (!place.has(keyword)) return {};
  const schemas = place.entries(keyword).map(([name, one]) => {
    checkName(one, name);
    return [name, normalize(one)] as const;
  });
  return { [keyword]: Object.fromEntries(schemas) } as Partial<Record<Keyword, Record<string, Schema>>>;
}

/** Reads what limits arrays. */
export function readArray(place: Place, use: Use, normalize: Normalize): Partial<Schema> {
  const items = readSchema(place, 'items', normalize);
  const unique = place.flag('uniqueItems') === true;
  // Of requests: Ajv compares all items in pairs, unless the schema of the items itself says that they are texts.
  const mayBeArray = !place.has('type') || [place.at('type').value].flat().includes('array');
  if (unique && mayBeArray && isOfRequests(use) && items.items?.type?.join() !== 'string') {
    place
      .at('uniqueItems')
      .fault(
        'uniqueItems is supported only for items of type string',
        'Leave it out, and compare the items in the handler',
      );
  }
  const prefix = place.list('prefixItems').map(normalize);
  return {
    ...items,
    ...(prefix.length > 0 && { prefixItems: prefix }),
    ...readSchema(place, 'contains', normalize),
    ...readSchema(place, 'unevaluatedItems', normalize),
    ...['minItems', 'maxItems', 'minContains', 'maxContains'].reduce(
      (counts, keyword) => ({ ...counts, ...count(place, keyword) }),
      {},
    ),
    ...(unique && { uniqueItems: true }),
  };
}

/** Reads what limits objects. */
export function readObject(place: Place, use: Use, normalize: Normalize): Partial<Schema> {
  const { properties } = readNamed(place, 'properties', (property) => {
    const schema = normalize(property);
    return schema.refused ? { refused: schema.refused, shape: absent } : schema;
  });
  const { patternProperties } = readNamed(place, 'patternProperties', normalize);
  for (const [pattern, one] of place.entries('patternProperties')) checkPattern(one, pattern, use);
  const required = readNames(place, 'required');
  const dependent = place.entries('dependentRequired');
  const given = place.at('additionalProperties');
  const isSchema = given.isObject || typeof given.value === 'boolean';
  if (place.has('additionalProperties') && !isSchema) {
    given.fault('must be true, false or a schema', 'Write false to allow no other properties');
  }
  return {
    ...(properties !== undefined && { properties }),
    ...(required.length > 0 && { required }),
    ...(given.value === false && { additionalProperties: false as const }),
    ...(given.value !== false && isSchema && { additionalProperties: normalize(given) }),
    ...(patternProperties !== undefined && { patternProperties }),
    ...readSchema(place, 'propertyNames', normalize),
    ...readSchema(place, 'unevaluatedProperties', normalize),
    ...readNamed(place, 'dependentSchemas', normalize),
    ...(dependent.length > 0 && {
      dependentRequired: Object.fromEntries(
        dependent.map(([name]) => [name, readNames(place.at('dependentRequired'), name)]),
      ),
    }),
    ...count(place, 'minProperties'),
    ...count(place, 'maxProperties'),
  };
}

function readNames(place: Place, keyword: string): string[] {
  const names = place
    .list(keyword, 'List the names of the required properties, next to properties')
    .flatMap((one) => {
      if (typeof one.value === 'string') return one.value;
      one.fault('must be a text', 'Write the name of a property');
      return [];
    });
  return [...new Set(names)];
}
