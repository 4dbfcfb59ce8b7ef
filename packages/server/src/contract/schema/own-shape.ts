// Finds what a schema says by itself about its value, and about what is in it.
import { bothOf, eitherOf, open, type Alternatives } from './alternatives.js';
import { isAnything, isNothing, type Schema } from './schema.js';
import type { NumberForm, TypeName } from './shape.js';

/** What a schema says by itself. */
export interface OwnShape {
  readonly types: readonly TypeName[] | undefined;
  readonly number: NumberForm | undefined;
  readonly binary: boolean;
  readonly required: readonly string[];
  readonly properties: Readonly<Record<string, Alternatives>>;
  /** Other properties, or items: false if there are none, and undefined if it says nothing about them. */
  readonly additional: Alternatives | false | undefined;
  readonly items: Alternatives | false | undefined;
}

/** Returns what a schema says by itself; undefined if it is nothing. */
export function ownShape(schema: Schema): OwnShape | undefined {
  const { type, number, required = [], items, prefixItems = [], patternProperties = {} } = schema;
  const isText = schema.enum?.every((value) => typeof value === 'string') === true;
  const names = [...Object.values(patternProperties), ...describing(schema.unevaluatedProperties)];
  const places = [...prefixItems, ...describing(schema.unevaluatedItems)];
  const says = type ?? number ?? schema.binary ?? schema.properties ?? schema.required ?? items;
  if (
    (says ?? schema.additionalProperties ?? names[0] ?? places[0]) === undefined &&
    !isText &&
    schema.default === undefined
  )
    return undefined;
  return {
    types: type ?? (isText ? ['string'] : undefined),
    number,
    binary: schema.binary === true,
    required,
    properties: Object.fromEntries(
      Object.entries(schema.properties ?? {}).map(([name, one]) => [
        name,
        one.refused ? [] : alternativesOf(one),
      ]),
    ),
    additional: rest(schema.additionalProperties, names),
    items: rest(items, places),
  };
}

/** All parts that are not named: those of the schema of the rest, and others. */
function rest(schema: Schema | undefined, others: readonly Schema[]): Alternatives | false | undefined {
  const isClosed = schema !== undefined && isNothing(schema);
  if (others.length === 0) return isClosed ? false : schema && alternativesOf(schema);
  const given = schema === undefined ? open : alternativesOf(schema);
  return eitherOf([...others.map(alternativesOf), ...(isClosed ? [] : [given])]);
}

function describing(schema: Schema | undefined): Schema[] {
  return schema === undefined || isNothing(schema) ? [] : [schema];
}

/** The alternatives of a value that has a schema, which is not looked into. */
export function alternativesOf(schema: Schema): Alternatives {
  return isAnything(schema) ? open : [[schema]];
}

/**
 * The alternatives of a value that has a schema: which of the schemas that are combined in it apply. Schemas that say
 * nothing by themselves are left out.
 * @param known - Those that have been found. The schema must not contain itself in its combinations.
 */
export function expand(schema: Schema, known: Map<Schema, Alternatives>): Alternatives {
  const found = known.get(schema);
  if (found !== undefined) return found;
  const of = (part: Schema) => expand(part, known);
  const { allOf = [], anyOf, oneOf, if: condition, then, else: otherwise, dependentSchemas = {} } = schema;
  const groups = [
    ...[anyOf, oneOf].flatMap((group) => (group === undefined ? [] : [group.map(of)])),
    ...(condition && (then ?? otherwise) ? [[then ? of(then) : open, otherwise ? of(otherwise) : open]] : []),
    ...Object.values(dependentSchemas).map((one) => [of(one), open]),
  ];
  const own = ownShape(schema) === undefined ? open : [[schema]];
  const expanded = bothOf([own, ...allOf.map(of), ...groups.map(eitherOf)]);
  known.set(schema, expanded);
  return expanded;
}
