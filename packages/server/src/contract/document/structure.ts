// Checks a whole document before anything else reads it, also what no operation uses.
import { hasControls } from './control-characters.js';
import { describeReference, scopeExtension } from './contract-node.js';
import { pointerOf } from './finding.js';
import { maxNameLength } from './yaml-nodes.js';

/**
 * What is at a place: `data`, which may be any JSON; `names`, texts that others are compared with; values `by name`, whose
 * names may be those of fields, too; or else `fields`, each of which says what it holds.
 */
type Kind = 'data' | 'names' | 'by name' | 'fields';

const kinds: Readonly<Partial<Record<Kind, string>>> = {
  data: 'example default enum const value',
  names: `name operationId required security ${scopeExtension}`,
  'by name':
    'schemas responses parameters examples requestBodies headers securitySchemes links callbacks pathItems webhooks ' +
    'content encoding properties patternProperties dependentSchemas $defs definitions',
};
const kindOfField = new Map(
  Object.entries(kinds).flatMap(([kind, fields]) =>
    fields.split(' ').map((field) => [field, kind as Kind] as const),
  ),
);

/** Returns what a field, an entry or an item holds. */
function kindOf(owner: Kind, field: string, value: unknown): Kind {
  if (owner === 'names') return owner;
  if (owner === 'by name') return 'fields';
  if (field === 'examples' && Array.isArray(value)) return 'data';
  return kindOfField.get(field) ?? (field.startsWith('x-') ? 'data' : 'fields');
}

/** Is called with the steps to what is wrong, and with what to do about it. */
type Report = (path: readonly (string | number)[], message: string, fix: string) => void;

/**
 * Checks a whole document, also what no operation uses: each reference is a text, and none leads out of it; and names
 * have no control characters. Writes references to anchors (JSON Schema 2020-12 section 8.2.2) as JSON Pointers.
 */
export function checkStructure(document: unknown, report: Report): void {
  const path: (string | number)[] = [];
  /** The references to anchors, and the references by which these are known everywhere. */
  const references: Record<string, string>[] = [];
  const anchors = new Map<string, string>();
  /** The same object may be at several places. */
  const seen = new Map<object, Set<Kind>>();
  const checkName = (name: string) => {
    const fault = (message: string, fix: string) => {
      report([...path], message, fix);
    };
    if (hasControls(name))
      fault('a name has control characters', 'Leave out line breaks and other control characters');
    if (name === '__proto__')
      fault('the name __proto__ is not supported', 'Write another name, which clients must then send');
    if (name.length > maxNameLength)
      fault(`the name has more than ${maxNameLength} characters`, 'Shorten it');
  };
  const check = (value: unknown, kind: Kind): void => {
    if (kind === 'names' && typeof value === 'string') checkName(value);
    if (typeof value !== 'object' || value === null || kind === 'data') return;
    const kinds = seen.get(value) ?? new Set();
    if (kinds.has(kind)) return;
    seen.set(value, kinds.add(kind));
    for (const [field, inner] of Object.entries(value)) {
      path.push(field);
      if (!Array.isArray(value)) checkName(field);
      if (kind === 'fields' && field === '$anchor' && !Array.isArray(value))
        anchors.set(`#${String(inner)}`, referenceTo(path.slice(0, -1)));
      if (field === '$ref' && /^#[^/]/.test(String(inner))) references.push(value as Record<string, string>);
      const isReference = field === '$ref' && kind !== 'by name';
      if (isReference && typeof inner !== 'string')
        report(
          [...path],
          'the reference is not a text',
          `Write it in quotes: outside of them, # begins a comment`,
        );
      else if (field === '$ref' && typeof inner === 'string' && !inner.startsWith('#'))
        report([...path], ...describeReference(inner));
      check(inner, kindOf(kind, field, inner));
      path.pop();
    }
  };
  check(document, 'fields');
  for (const one of references) one['$ref'] = anchors.get(one['$ref']!) ?? one['$ref']!;
}

/** A reference within the document (RFC 6901 section 6). */
function referenceTo(path: readonly (string | number)[]): string {
  return `#${path.map((step) => `/${encodeURIComponent(pointerOf([step]).slice(1))}`).join('')}`;
}
