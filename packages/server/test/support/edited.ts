// Copies of JSON documents with changes, which JSON Pointers (RFC 6901) place.

/** What is put at each pointer; undefined removes what is there, and a last `-` appends to an array (RFC 6902). */
export type Edits = Readonly<Record<string, unknown>>;

/** The keys of a JSON Pointer. */
const keysOf = (pointer: string) =>
  pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));

/**
 * The part of a document at a JSON Pointer.
 * @throws TypeError if something above it is missing.
 */
export function partOf(document: unknown, pointer: string): unknown {
  return keysOf(pointer).reduce((node, key) => (node as Record<string, unknown>)[key], document);
}

/**
 * A copy of a document with changes, which are made in their order.
 * @throws TypeError if something above a place is missing.
 */
export function edited(document: object, edits: Edits): object {
  const copy = structuredClone(document);
  for (const [pointer, value] of Object.entries(edits)) {
    const end = pointer.lastIndexOf('/');
    const parent = partOf(copy, pointer.slice(0, end)) as Record<string, unknown>;
    const [key = ''] = keysOf(pointer.slice(end));
    if (value === undefined) Reflect.deleteProperty(parent, key);
    else if (Array.isArray(parent) && key === '-') parent.push(structuredClone(value));
    else parent[key] = structuredClone(value);
  }
  return copy;
}
