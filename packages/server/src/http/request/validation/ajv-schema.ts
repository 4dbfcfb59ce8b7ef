// Writes schemas of the normal form for Ajv.
import type { AnySchema } from 'ajv';
import { isNothing, mapSchemas, partsOf, type Schema } from '../../../contract/schema/schema.js';
import { propertyShape } from '../../../contract/schema/shape.js';
import { isNumeric, ownKeywords } from './keywords.js';

/** The keywords that Ajv gets as they are. */
const plainKeywords = [
  ...(['format', 'pattern', 'minLength', 'maxLength'] as const),
  ...(['minItems', 'maxItems', 'minProperties', 'maxProperties'] as const),
];

/** Keywords whose schemas Ajv applies, and those whose schemas our keywords judge by themselves. */
const inlineKeywords = [
  ...([
    'properties',
    'patternProperties',
    'additionalProperties',
    'items',
    'allOf',
    'dependentSchemas',
  ] as const),
];
const judgedKeywords = [
  ...(['anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'contains', 'propertyNames'] as const),
  ...(['unevaluatedItems', 'unevaluatedProperties'] as const),
];

/** A schema with more schemas inside is compiled by itself: then the effort grows with the contract only. */
const maxInline = 40;

/**
 * Writes a schema in JSON Schema draft 7, which Ajv validates fastest. The values of our keywords are functions that return
 * a schema, since Ajv walks through everything else.
 * @param addSeparate - Called with each schema inside that is to be compiled by itself.
 */
export function writeSchema(schema: Schema, addSeparate: (part: Schema) => void): AnySchema {
  if (isNothing(schema)) return false;
  const within = (part: Schema) => {
    if (isSmall(part)) return writeSchema(part, addSeparate);
    addSeparate(part);
    return { 'own:reference': () => part };
  };
  for (const part of partsOf(schema, judgedKeywords)) addSeparate(part);
  // Defaults are judged when they are filled in.
  for (const part of partsOf(schema, ['properties']))
    if (propertyShape(part).default !== undefined) addSeparate(part);
  const { items, dependentSchemas, ...written } = mapSchemas(schema, inlineKeywords, within);
  if (schema.prefixItems === undefined) Object.assign(written, items !== undefined && { items });
  else {
    written['items'] = schema.prefixItems.map(within);
    if (items !== undefined) written['additionalItems'] = items;
  }
  if (dependentSchemas !== undefined) written['dependencies'] = dependentSchemas;
  for (const keyword of Object.keys(ownKeywords) as (keyof Schema)[])
    if (schema[keyword] !== undefined) written[`own:${keyword}`] = () => schema;
  if (isNumeric(schema)) written['own:numeric'] = () => schema;
  if (schema.binary) return written;
  for (const keyword of plainKeywords) if (schema[keyword] !== undefined) written[keyword] = schema[keyword];
  if (schema.type !== undefined && !isNumeric(schema)) written['type'] = schema.type;
  return written;
}

const small = new WeakMap<Schema, boolean>();

/** Whether few schemas are in a schema, with itself, each counted as often as it is there. */
function isSmall(root: Schema): boolean {
  const known = small.get(root);
  if (known !== undefined) return known;
  const found = [root];
  for (const schema of found)
    if (found.length <= maxInline) for (const part of partsOf(schema)) found.push(part);
  small.set(root, found.length <= maxInline);
  return found.length <= maxInline;
}
