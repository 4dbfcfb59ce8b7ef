// Walks through a schema and all schemas inside it, which may contain it again.
import { partsOf, type Schema } from './schema.js';

/** A schema and all schemas inside it, or only those of some keywords, each once. */
export function allSchemas(root: Schema, keywords?: Parameters<typeof partsOf>[1]): Set<Schema> {
  const found = new Set([root]);
  for (const schema of found) for (const part of partsOf(schema, keywords)) found.add(part);
  return found;
}

const recursive = new WeakMap<Schema, boolean>();

/**
 * Whether a schema, or one inside it, contains itself.
 * @param outer - The schemas that contain it.
 */
export function isRecursive(schema: Schema, outer = new Set<Schema>()): boolean {
  const known = recursive.get(schema);
  if (known !== undefined || outer.has(schema)) return known ?? true;
  outer.add(schema);
  const found = partsOf(schema).some((part) => isRecursive(part, outer));
  outer.delete(schema);
  recursive.set(schema, found);
  return found;
}
