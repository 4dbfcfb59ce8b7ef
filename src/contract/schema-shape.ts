// Finds the shape that follows from a schema.
import type { ContractNode } from './contract-node.js';
import { isNothing, isOfRequests, type Schema, type Use } from './schema.js';
import { anything, withoutAbsent, type NumberForm, type Report, type Shape, type Shapes } from './shape.js';

/** What a schema says by itself, and how its value is used. */
interface Given {
  readonly schema: Omit<Schema, 'shape'>;
  readonly number: NumberForm | undefined;
  readonly node: ContractNode;
  readonly use: Use;
}

/** Finds the shape of a value that matches a schema. */
export function findShape(given: Given, shapes: Shapes): Shape {
  const { schema, use, node } = given;
  const report: Report = (message, fix) => {
    node.fault(message, fix);
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

function ownShape({ schema, number, node, use }: Given, unite: (all: Shape[]) => Shape): Shape {
  const { type, required = [], items, prefixItems = [], patternProperties = {} } = schema;
  const fill = isOfRequests(use) ? node.at('default').value : undefined;
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
  rest: Schema | undefined,
  others: readonly Schema[],
  unite: (all: Shape[]) => Shape,
): Shape | false | undefined {
  const isClosed = rest !== undefined && isNothing(rest);
  if (others.length === 0) return isClosed ? false : rest?.shape;
  const shapes = others.map(({ shape }) => shape);
  return unite(isClosed ? shapes : [...shapes, rest?.shape ?? anything]);
}

function describing(schema: Schema | undefined): Schema[] {
  return schema === undefined || isNothing(schema) ? [] : [schema];
}
