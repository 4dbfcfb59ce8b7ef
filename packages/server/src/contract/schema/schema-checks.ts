// Finds combinations of schemas that no value can match, and defaults that are not filled in.
import { nearest, type ContractNode } from '../document/contract-node.js';
import { allSchemas } from './schema-walk.js';
import { partsOf, type Schema } from './schema.js';
import type { TypeName } from './json-types.js';
import { absent, propertyShape, shapeOf, type Shape } from './shape.js';

/** The maximum depth to which properties that several parts describe are compared. */
const comparedDepth = 3;

/** The keywords whose schemas apply to some values only, and `allOf` in them. */
const sometimes = ['allOf', 'anyOf', 'oneOf', 'if', 'then', 'else', 'dependentSchemas'] as const;

/** Reports contradictions in a schema with all the schemas that it combines. */
export function checkTogether(node: ContractNode, schema: Schema): void {
  const shape = shapeOf(schema);
  checkContradictions(node, shape, '', comparedDepth);
  checkRoom(node, shape);
  checkRequired(node, schema, shape);
  checkEvaluation(node, schema);
}

/** Refuses values that two parts give different types. */
function checkContradictions(node: ContractNode, shape: Shape, place: string, depth: number): void {
  const { parts } = shape;
  if (parts.length < 2) return;
  const agree = 'Let all parts of allOf, and all alternatives, agree';
  const what = place === '' ? 'a value' : place;
  const types = parts.map((part) => part.types).filter((one) => one !== undefined);
  if (shape.types?.length === 0 && types.every(({ length }) => length > 0)) {
    node.fault(`${what} cannot be ${listed(types)} at the same time`, agree);
    return;
  }
  const forms = new Set(parts.map(({ number }) => number).filter((form) => form !== undefined));
  if (forms.has('int64') && (forms.has('integer') || forms.has('double')))
    node.fault(`${what} cannot have the format int64 and be another number at the same time`, agree);
  if (depth > 0 && parts.filter(({ types: some }) => some?.includes('object') ?? true).length > 1)
    for (const [name, property] of Object.entries(shape.properties))
      checkContradictions(node, property, place === '' ? name : `${place}.${name}`, depth - 1);
}

/** The types of several parts, as in `string and integer`. */
function listed(types: readonly (readonly TypeName[])[]): string {
  return [...new Set(types.map((some) => some.join(' or ')))].join(' and ');
}

/** Finds properties that a part describes, and another one, which is closed, does not have. */
function checkRoom(node: ContractNode, { parts, types }: Shape): void {
  if (types?.includes('object') === false) return;
  const closed = parts.filter(({ additional }) => additional === false);
  const excluded = parts.flatMap(({ properties, required }) =>
    Object.keys(properties)
      .filter((name) => properties[name] !== absent)
      .filter((name) => closed.some((part) => !Object.hasOwn(part.properties, name)))
      .map((name) => ({
        name,
        isRequired: parts.some((part) => part.required.includes(name)) || required.includes(name),
      })),
  );
  const names = [...new Set(excluded.map(({ name }) => name))];
  if (names.length === 0) return;
  const fix = 'Leave additionalProperties: false out of the parts, or write all properties in one schema';
  const needed = excluded.find(({ isRequired }) => isRequired);
  if (needed !== undefined && types?.join() === 'object')
    node.fault(
      `no object has ${needed.name} in all parts: one requires it, and another one has no additional properties`,
      fix,
    );
  else
    node.warn(
      `no object can have ${names.slice(0, 5).join(', ')}: another part has no additional properties`,
      fix,
    );
}

function checkRequired(node: ContractNode, { allOf }: Schema, shape: Shape): void {
  const names = Object.keys(shape.properties);
  const missing = shape.required.find((name) => !names.includes(name));
  if (missing === undefined) return;
  const near = nearest(missing, names);
  const at = allOf === undefined ? node.at('required') : node;
  const message = `requires ${missing}, which is not one of its properties`;
  const fix =
    near === undefined
      ? 'Add the property, or do not require it'
      : `Write ${near}, which requests must then have, or add the property`;
  if (shape.additional === false) at.fault(message, fix);
  else if (near !== undefined) at.warn(message, fix);
}

/** Refuses what Ajv gets wrong: items that have been evaluated by `contains`, or only in some cases. */
function checkEvaluation(node: ContractNode, schema: Schema): void {
  if (schema.unevaluatedItems === undefined) return;
  const sure = allSchemas(schema, ['allOf']);
  const others = new Set<Schema>();
  for (const one of [sure, others])
    for (const outer of one) for (const part of partsOf(outer, sometimes)) others.add(part);
  const describesItems = (one: Schema) => one.items ?? one.prefixItems ?? one.unevaluatedItems;
  const isWrong =
    [...sure, ...others].some(({ contains }) => contains) ||
    [...others].some((one) => !sure.has(one) && describesItems(one));
  if (isWrong) {
    const fix = 'Describe items only by items and prefixItems, and not in alternatives or conditions';
    node.at('unevaluatedItems').fault('unevaluatedItems is not supported with these schemas', fix);
  }
}

/** Finds the schemas whose defaults are not filled in, because they, or others of the same value, do not allow them. */
export function findUnfilled(schema: Schema): Schema[] {
  const own = schema.default !== undefined && shapeOf(schema).default === undefined ? [schema] : [];
  return [...own, ...unfilledIn([...allSchemas(schema, ['allOf'])], new Set())];
}

/**
 * @param together - Schemas that apply to the same value.
 * @param known - The alternatives that have been examined.
 */
function unfilledIn(together: readonly Schema[], known: Set<Schema>): Schema[] {
  const properties = together.flatMap((one) => Object.entries(one.properties ?? {}));
  const limits = new Map<string, Schema[]>();
  for (const [name, property] of properties) limits.set(name, [...(limits.get(name) ?? []), property]);
  const lost = properties.flatMap(([name, property]) => {
    const value = propertyShape(property).default;
    if (value === undefined) return [];
    return limits.get(name)!.some((one) => shapeOf(one).accepts?.(value) === false) ? [property] : [];
  });
  const alternatives = together
    .flatMap((one) => partsOf(one, ['anyOf', 'oneOf', 'then', 'else', 'dependentSchemas']))
    .filter((one) => !known.has(one));
  return [
    ...lost,
    ...alternatives.flatMap((one) => {
      known.add(one);
      return unfilledIn([...together, ...allSchemas(one, ['allOf'])], known);
    }),
  ];
}
