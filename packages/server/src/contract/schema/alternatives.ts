// The schemas that can apply to a value together, one set for each combination of alternatives.
import type { Schema } from './schema.js';

/** Schemas that apply to a value together, by their order in the contract; none if nothing is known of the value. */
export type Term = readonly Schema[];
/** A value satisfies one of these terms. The list is empty if the value must not be there. */
export type Alternatives = readonly Term[];

/** Nothing is known about the value. */
export const open: Alternatives = [[]];

/** The maximum number of combinations that are distinguished. */
const maxCombinations = 64;

/** Combines alternatives: a value satisfies one of them. */
export function eitherOf(all: readonly Alternatives[]): Alternatives {
  return all.length === 1 ? all[0]! : distinct(all.flat());
}

/**
 * Combines groups of alternatives: a value satisfies one of each group. If there are too many combinations, the result
 * accepts more: what is in all terms, with one of the other schemas or none.
 */
export function bothOf(all: readonly Alternatives[]): Alternatives {
  const [first = open, ...others] = all;
  if (others.length === 0) return first;
  const count = all.reduce((product, { length }) => product * length, 1);
  if (count > maxCombinations) return combineRoughly(all);
  return others.reduce(
    (terms, other) => distinct(terms.flatMap((one) => other.map((two) => joined(one, two)))),
    first,
  );
}

function combineRoughly(all: readonly Alternatives[]): Alternatives {
  const inEach = (terms: Alternatives) =>
    terms[0]!.filter((one) => terms.every((term) => term.includes(one)));
  const sure = all.map(inEach).reduce<Term>(joined, []);
  const others = new Set(all.flat(2));
  return distinct([sure, ...[...others].map((one) => joined(sure, [one]))]);
}

function joined(one: Term, other: Term): Term {
  return other.length === 0 ? one : [...new Set([...one, ...other])];
}

/** Leaves out terms of the same schemas. */
function distinct(terms: Alternatives): Alternatives {
  if (terms.length < 2) return terms;
  const known = new Map<string, Term>();
  for (const term of terms) {
    const key = keyOf(term);
    if (!known.has(key)) known.set(key, term);
  }
  return [...known.values()];
}

/** A text that terms of the same schemas have in common, with the same one of their defaults. */
export function keyOf(term: Term): string {
  const [only] = term;
  if (term.length < 2) return only === undefined ? '' : idOf(only);
  const defaults = term.filter((one) => one.default !== undefined);
  const first = defaults.length > 1 ? `${idOf(defaults[0]!)}<` : '';
  return first + term.map(idOf).sort().join();
}

const ids = new WeakMap<Schema, string>();
let count = 0;

/** A text that no other schema has. */
export function idOf(schema: Schema): string {
  let id = ids.get(schema);
  if (id === undefined) ids.set(schema, (id = (count++).toString(36)));
  return id;
}
