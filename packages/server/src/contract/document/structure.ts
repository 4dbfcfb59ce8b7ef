// What each place of an OpenAPI document holds: a name, data that nobody reads, or an object with places of its own. With
// it, a whole document is checked before anything else reads it, also what no operation uses.
import { hasControls } from './control-characters.js';
import { describeReference, scopeExtension } from './contract-node.js';
import { pointerOf } from './finding.js';
import { maxNameLength } from './yaml-nodes.js';

/**
 * Kinds of places. `name` is a text or a list of texts that others are compared with, and `data` may be any JSON. In
 * `other`, nothing is data but extensions. `schema{}` is an object of schemas by their names, `response*` one that may also
 * have extensions.
 */
type Kind = string;

const example: Readonly<Record<string, Kind>> = { example: 'data', examples: 'example{}' };
const operations = 'get head post put patch delete options trace';

/** The fields of the kinds of objects, without those that are texts, numbers or flags. */
const fieldsOf: Readonly<Record<string, Readonly<Record<string, Kind>>>> = {
  document: { paths: 'pathItem*', webhooks: 'pathItem{}', components: 'components', security: 'name' },
  components: {
    schemas: 'schema{}',
    responses: 'response{}',
    parameters: 'parameter{}',
    examples: 'example{}',
    requestBodies: 'requestBody{}',
    headers: 'parameter{}',
    securitySchemes: 'scheme{}',
    links: 'link{}',
    callbacks: 'pathItem*{}',
    pathItems: 'pathItem{}',
  },
  pathItem: {
    parameters: 'parameter',
    ...Object.fromEntries(operations.split(' ').map((method) => [method, 'operation'])),
  },
  operation: {
    operationId: 'name',
    tags: 'name',
    security: 'name',
    [scopeExtension]: 'name',
    parameters: 'parameter',
    requestBody: 'requestBody',
    responses: 'response*',
    callbacks: 'pathItem*{}',
  },
  parameter: { name: 'name', schema: 'schema', content: 'media{}', ...example },
  requestBody: { content: 'media{}' },
  response: { headers: 'parameter{}', content: 'media{}', links: 'link{}' },
  media: { schema: 'schema', encoding: 'encoding{}', ...example },
  encoding: { headers: 'parameter{}' },
  example: { value: 'data' },
  link: { operationId: 'name', parameters: 'data', requestBody: 'data' },
  scheme: { name: 'name' },
  schema: {
    ...Object.fromEntries(
      ['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions'].map((one) => [
        one,
        'schema{}',
      ]),
    ),
    ...Object.fromEntries(['example', 'examples', 'default', 'enum', 'const'].map((one) => [one, 'data'])),
    required: 'name',
    discriminator: 'other',
  },
  other: {},
};

/** Returns what the field of an object of some kind, or an entry of a kind of object by names, holds. */
function kindOf(owner: Kind, field: string): Kind {
  const ofNames = /^(.*)(\*|\{\})$/.exec(owner);
  if (ofNames?.[2] === '{}') return ofNames[1]!;
  const fields = fieldsOf[ofNames?.[1] ?? owner];
  if (ofNames === null && fields !== undefined && Object.hasOwn(fields, field)) return fields[field]!;
  if (owner === 'name') return owner;
  if (field.startsWith('x-')) return 'data';
  if (ofNames !== null) return ofNames[1]!;
  return owner === 'schema' ? owner : 'other';
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
    if (hasControls(name))
      report(
        [...path],
        'a name has control characters',
        'Leave out line breaks and other control characters',
      );
    if (name === '__proto__')
      report(
        [...path],
        'the name __proto__ is not supported',
        'Write another name, which clients must then send',
      );
    if (name.length > maxNameLength)
      report([...path], `the name has more than ${maxNameLength} characters`, 'Shorten it');
  };
  const check = (value: unknown, kind: Kind): void => {
    if (kind === 'name' && typeof value === 'string') checkName(value);
    if (typeof value !== 'object' || value === null || kind === 'data') return;
    const kinds = seen.get(value) ?? new Set();
    if (kinds.has(kind)) return;
    seen.set(value, kinds.add(kind));
    for (const [field, inner] of Object.entries(value)) {
      path.push(field);
      if (!Array.isArray(value)) checkName(field);
      if (kind === 'schema' && field === '$anchor' && !Array.isArray(value))
        anchors.set(`#${String(inner)}`, referenceTo(path.slice(0, -1)));
      if (field === '$ref' && /^#[^/]/.test(String(inner))) references.push(value as Record<string, string>);
      const isReference = field === '$ref' && !/[*}]$/.test(kind);
      if (isReference && typeof inner !== 'string')
        report(
          [...path],
          'the reference is not a text',
          `Write it in quotes: outside of them, # begins a comment`,
        );
      else if (field === '$ref' && typeof inner === 'string' && !inner.startsWith('#'))
        report([...path], ...describeReference(inner));
      check(inner, Array.isArray(value) ? kind : kindOf(kind, field));
      path.pop();
    }
  };
  check(document, 'document');
  for (const one of references) one['$ref'] = anchors.get(one['$ref']!) ?? one['$ref']!;
}

/** A reference within the document (RFC 6901 section 6). */
function referenceTo(path: readonly (string | number)[]): string {
  return `#${path.map((step) => `/${encodeURIComponent(pointerOf([step]).slice(1))}`).join('')}`;
}
