// Finds combinations of schemas that no value can match, and defaults that are not filled in.
import type { ContractNode } from '../document/contract-node.js';
import { isBig } from './json-types.js';
import { allSchemas, type Schema } from './schema.js';
import { absent, propertyShape, shapeOf, type Shape } from './shape.js';

/** The maximum depth to which properties that several parts describe are compared. */
const comparedDepth = 3;

/** Reports contradictions in a schema with all the schemas that it combines. */
export function checkTogether(node: ContractNode, schema: Schema): void {
  const shape = shapeOf(schema);
  checkContradictions(node, shape, '', comparedDepth);
  checkRoom(node, shape);
  const missing = shape.required.find((name) => !Object.hasOwn(shape.properties, name));
  if (missing !== undefined && shape.additional === false)
    node
      .placeOf('required')
      .fault(
        `requires ${missing}, which is not one of its properties`,
        'Add the property, or do not require it',
      );
}

/** Refuses values that two parts give different types. */
function checkContradictions(node: ContractNode, shape: Shape, place: string, depth: number): void {
  const { parts } = shape;
  if (parts.length < 2) return;
  const agree = 'Let all parts of allOf, and all alternatives, agree';
  const what = place === '' ? 'a value' : place;
  const types = parts.map((part) => part.types).filter((names) => names !== undefined);
  if (shape.types?.length === 0 && types.every(({ length }) => length > 0)) {
    const listed = new Set(types.map((names) => names.join(' or ')));
    node.fault(`${what} cannot be ${[...listed].join(' and ')} at the same time`, agree);
    return;
  }
  const forms = parts.map(({ number }) => number).filter((form) => form !== undefined);
  const big = forms.find(isBig);
  if (big !== undefined && forms.some((form) => form !== big))
    node.fault(`${what} cannot have the format ${big} and be another number at the same time`, agree);
  if (depth > 0 && parts.filter((part) => part.types?.includes('object') ?? true).length > 1)
    for (const [name, property] of Object.entries(shape.properties))
      checkContradictions(node, property, place === '' ? name : `${place}.${name}`, depth - 1);
}

/** Finds properties that a part describes, and another one, which is closed, does not have. */
function checkRoom(node: ContractNode, { parts, types }: Shape): void {
  if (types?.includes('object') === false) return;
  const closed = parts.filter(({ additional }) => additional === false);
  const names = parts
    .flatMap(({ properties }) => Object.keys(properties).filter((name) => properties[name] !== absent))
    .filter((name) => closed.some(({ properties }) => !Object.hasOwn(properties, name)));
  if (names.length === 0) return;
  node.warn(
    `no object can have ${[...new Set(names)].slice(0, 5).join(', ')}: another part has no additional properties`,
    'Leave additionalProperties: false out of the parts, or write all properties in one schema',
  );
}

/** Finds the schemas whose defaults are not filled in everywhere, because they, or others of the same value, do not allow them. */
export function findUnfilled(schema: Schema): Schema[] {
  const own = schema.default !== undefined && shapeOf(schema).default === undefined ? [schema] : [];
  const together = [...allSchemas(schema, ['allOf', 'anyOf', 'oneOf', 'then', 'else', 'dependentSchemas'])];
  const named = together.flatMap(({ properties = {} }) => Object.entries(properties));
  const lost = named.filter(([name, property]) => {
    const value = propertyShape(property).default;
    const isRefused = ([other, part]: [string, Schema]) => other === name && !shapeOf(part).accepts(value);
    return value !== undefined && named.some(isRefused);
  });
  return [...own, ...lost.map(([, property]) => property)];
}
