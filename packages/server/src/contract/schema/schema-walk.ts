// Walks through a schema and all schemas inside it, which may contain it again.
import { partsOf, type Schema } from './schema.js';

/** A schema and all schemas inside it, or only those of some keywords, each once. */
export function allSchemas(root: Schema, keywords?: Parameters<typeof partsOf>[1]): Set<Schema> {
  const found = new Set([root]);
  for (const schema of found) for (const part of partsOf(schema, keywords)) found.add(part);
  return found;
}

const recursive = new WeakMap<Schema, boolean>();

/** Whether a schema, or one inside it, contains itself. */
export function isRecursive(root: Schema): boolean {
  const known = recursive.get(root);
  if (known !== undefined) return known;
  const unknown = [...allSchemas(root)].filter((schema) => !recursive.has(schema));
  const owners = new Map<Schema, Schema[]>(unknown.map((schema) => [schema, []]));
  const parts = new Map<Schema, number>();
  for (const schema of unknown) {
    const inner = new Set(partsOf(schema));
    const left = [...inner].filter((part) => recursive.get(part) !== false);
    for (const part of left) owners.get(part)?.push(schema);
    parts.set(schema, left.length);
  }
  // Those whose parts have none that are recursive are not either; what remains contains itself.
  const plain = unknown.filter((schema) => parts.get(schema) === 0);
  for (let schema = plain.pop(); schema !== undefined; schema = plain.pop()) {
    recursive.set(schema, false);
    for (const owner of owners.get(schema)!) {
      const left = parts.get(owner)! - 1;
      parts.set(owner, left);
      if (left === 0) plain.push(owner);
    }
  }
  for (const schema of unknown) if (!recursive.has(schema)) recursive.set(schema, true);
  return recursive.get(root)!;
}
