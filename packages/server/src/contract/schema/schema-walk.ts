// Walks through a schema and all schemas inside it, which may contain it again.
import { partsOf, type Schema } from './schema.js';

/** A schema and all schemas inside it, or only those of some keywords, each once. */
export function allSchemas(root: Schema, keywords?: Parameters<typeof partsOf>[1]): Set<Schema> {
  const found = new Set([root]);
  for (const schema of found) for (const part of partsOf(schema, keywords)) found.add(part);
  return found;
}

/** Whether a schema, or one inside it, contains itself. */
export const isRecursive = finding(() => false);

/** The same, or whether one has alternatives. */
export const isChoosing = finding(({ anyOf, oneOf }) => (anyOf ?? oneOf) !== undefined);

/**
 * Returns a function that finds whether a schema contains itself or is one that is looked for, or one inside it does. Each
 * schema is walked through once, whatever it is asked about.
 */
function finding(isWanted: (schema: Schema) => boolean): (root: Schema) => boolean {
  const known = new WeakMap<Schema, boolean>();
  const find = (root: Schema) => {
    const unknown = [...allSchemas(root)].filter((schema) => !known.has(schema));
    const owners = new Map<Schema, Schema[]>(unknown.map((schema) => [schema, []]));
    const parts = new Map<Schema, number>();
    for (const schema of unknown) {
      const left = [...new Set(partsOf(schema))].filter((part) => known.get(part) !== false);
      for (const part of left) owners.get(part)?.push(schema);
      parts.set(schema, left.length + (isWanted(schema) ? 1 : 0));
    }
    // Those whose parts have none are none either; what remains leads to one, or contains itself.
    const plain = unknown.filter((schema) => parts.get(schema) === 0);
    for (let schema = plain.pop(); schema !== undefined; schema = plain.pop()) {
      known.set(schema, false);
      for (const owner of owners.get(schema)!) {
        const left = parts.get(owner)! - 1;
        parts.set(owner, left);
        if (left === 0) plain.push(owner);
      }
    }
    for (const schema of unknown) if (!known.has(schema)) known.set(schema, true);
    return known.get(root)!;
  };
  return (root) => known.get(root) ?? find(root);
}
