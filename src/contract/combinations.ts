// Reads the keywords that combine schemas of one value, and finds the shape that follows from all of them.
import { readSchema, type Normalize } from './containers.js';
import type { Place } from './place.js';
import { isNothing, isOfRequests, type Schema, type Use } from './schema.js';
import { anything, withoutAbsent, type NumberForm, type Report, type Shape, type Shapes } from './shape.js';

/** Reads the keywords that combine schemas of one value. */
export function readCombinations(place: Place, normalize: Normalize): Partial<Schema> {
  const list = (keyword: 'allOf' | 'anyOf' | 'oneOf') => {
    const parts = place.list(keyword).map(normalize);
    if (parts.length === 0 && place.has(keyword) && keyword !== 'allOf')
      place.at(keyword).fault('allows no value', 'List the alternatives');
    return parts.length > 0 && { [keyword]: parts };
  };
  checkMapping(place.at('discriminator'));
  return {
    ...list('allOf'),
    ...list('anyOf'),
    ...list('oneOf'),
    ...readSchema(place, 'not', normalize),
    ...readSchema(place, 'if', normalize),
    ...(place.has('if') && {
      ...readSchema(place, 'then', normalize),
      ...readSchema(place, 'else', normalize),
    }),
  };
}

/** Checks what a discriminator refers to: by itself it only describes. */
function checkMapping(discriminator: Place): void {
  if (discriminator.value === undefined) return;
  discriminator.allow('propertyName mapping');
  discriminator.require('propertyName', 'Write the name of the property');
  for (const [, target] of discriminator.entries('mapping')) {
    if (typeof target.value === 'string') target.refer(target.value);
    else target.fault('must be a text', 'Write a reference, or the name of a schema');
  }
}

/** What a schema says by itself, and how its value is used. */
interface Given {
  readonly schema: Omit<Schema, 'shape'>;
  readonly number: NumberForm | undefined;
  readonly place: Place;
  readonly use: Use;
}

/** Finds the shape of a value that matches a schema. */
export function findShape(given: Given, shapes: Shapes): Shape {
  const { schema, use, place } = given;
  const report: Report = (message, fix) => {
    place.fault(message, fix);
  };
  // Only values that the server converts must have one format.
  const reportChoice: Report = isOfRequests(use) ? report : () => undefined;
  const unite = (all: readonly Shape[]) => all.reduce((one, other) => shapes.unite(one, other, reportChoice));
  const merge = (all: readonly Shape[]) => all.reduce((one, other) => shapes.merge(one, other, report));
  const own = ownShape(given, unite);
  const { allOf = [], if: condition, then, else: otherwise, dependentSchemas = {} } = schema;
  const sometimes = Object.values(dependentSchemas).map(({ shape }) => unite([shape, anything]));
  if (condition !== undefined && (then ?? otherwise) !== undefined)
    sometimes.push(unite([then?.shape ?? anything, otherwise?.shape ?? anything]));
  const base = merge([own, ...allOf.map(({ shape }) => shape), ...sometimes]);
  const groups = [schema.anyOf, schema.oneOf].filter((group) => group !== undefined);
  if (groups.length === 0) return base;
  const united = groups.map((group) => unite(group.map(({ shape }) => shape)));
  return shapes.choose(merge([base, ...united]), () => ({
    base: base.choice?.base ?? base,
    groups: [...(base.choice?.groups ?? []), ...groups],
  }));
}

function ownShape({ schema, number, place, use }: Given, unite: (all: Shape[]) => Shape): Shape {
  const { type, required = [], items, prefixItems = [], patternProperties = {} } = schema;
  const fill = isOfRequests(use) ? place.at('default').value : undefined;
  const properties = Object.fromEntries(
    Object.entries(schema.properties ?? {}).map(([name, { shape }]) => [name, shape]),
  );
  const isText = schema.enum?.every((value) => typeof value === 'string');
  const names = [...Object.values(patternProperties), ...describing(schema.unevaluatedProperties)];
  const places = [...prefixItems, ...describing(schema.unevaluatedItems)];
  const says = type ?? isText ?? number ?? schema.properties ?? schema.required ?? items ?? fill;
  if ((says ?? schema.additionalProperties ?? names[0] ?? places[0]) === undefined) return anything;
  return {
    types: type ?? (isText === true ? ['string'] : undefined),
    number,
    properties,
    required: withoutAbsent(required, properties),
    additional: uniteRest(schema.additionalProperties, names, unite),
    items: uniteRest(items, places, unite) || undefined,
    ...(fill !== undefined && { default: fill }),
  };
}

/** The shape of all parts that are not named: those of the schema of the rest, and others. */
function uniteRest(
  rest: false | Schema | undefined,
  others: readonly Schema[],
  unite: (all: Shape[]) => Shape,
): Shape | false | undefined {
  const isClosed = rest === false || (rest !== undefined && isNothing(rest));
  if (others.length === 0) return rest === false ? false : rest?.shape;
  const shapes = others.map(({ shape }) => shape);
  return unite(isClosed ? shapes : [...shapes, rest?.shape ?? anything]);
}

function describing(schema: Schema | undefined): Schema[] {
  return schema === undefined || isNothing(schema) ? [] : [schema];
}
