// The part of a contract that is served, from which openapi-typescript generates types. It follows every reference that it
// finds, wherever that leads, so it gets nothing that was not checked: no component that no operation refers to, and no
// reference in what is only data.
import type { Contract } from '../contract/contract.js';
import { stepsOf } from '../contract/contract-node.js';
import { statusKey } from '../contract/responses.js';
import { kindOf } from '../contract/structure.js';

type Fields = Record<string, unknown>;

/** A parameter, or a reference to one. */
interface Reference {
  $ref?: string;
  name?: string;
  in?: string;
  required?: boolean;
}

interface OperationObject {
  operationId?: string;
  parameters?: Reference[];
  responses?: object;
  requestBody?: unknown;
}

/** The components that types have. */
const componentKinds = ['schemas', 'responses', 'parameters', 'requestBodies', 'headers'] as const;

/** What types do not show, though it may contain references. */
const omitted = ['callbacks', 'links', 'security', 'servers', 'externalDocs', 'encoding', 'xml'];

/**
 * Returns a copy of what is served. Each operation has an operationId and a success, and discriminators have references,
 * since openapi-typescript does not know names. A parameter with a default is required: a handler always gets a value.
 * Without one that is filled in, it may not.
 */
export function servedDocument(contract: Contract) {
  const { document, operations } = contract;
  const copy = copier(contract);
  const components = Object.fromEntries(
    componentKinds.map((kind) => {
      const all = Object.entries(
        (document['components'] as Record<string, Fields> | undefined)?.[kind] ?? {},
      );
      const used = all.filter(([name]) => contract.isReferred(['components', kind, name]));
      const one = kindOf(kindOf('components', kind), '');
      return [kind, Object.fromEntries(used.map(([name, value]) => [name, copy(value, one)]))];
    }),
  );
  const paths: Record<string, Fields> = {};
  for (const { path, method, operationId, declared, results, body, parameters } of operations) {
    const { parameters: shared, summary, description } = copy(declared.item, 'pathItem') as Fields;
    const item = (paths[path] ??= { summary, description, parameters: shared });
    const operation = copy(declared.operation, 'operation') as OperationObject;
    for (const given of [
      ...((item['parameters'] as Reference[] | undefined) ?? []),
      ...(operation.parameters ?? []),
    ]) {
      const target = parameterOf(given, components['parameters'] as Record<string, Reference>);
      const isFilled = parameters.some(
        (one) => one.name === target.name && one.in === target.in && one.schema.shape.default !== undefined,
      );
      if (isFilled) target.required = true;
    }
    // A success need not be declared.
    const responses: object = Object.fromEntries(results.map(({ key }) => [key, { description: '' }]));
    item[method.toLowerCase()] = {
      ...operation,
      operationId,
      responses: { ...responses, ...operation.responses },
    };
    // OpenAPI 3.0 ignores those of some methods.
    if (body === undefined) delete (item[method.toLowerCase()] as OperationObject).requestBody;
  }
  const { openapi } = document;
  const served = { openapi: String(openapi), info: { title: 'Served', version: '1' }, paths, components };
  return withoutLostReferences(served, served) as typeof served;
}

/** Follows references from parameter to parameter. */
function parameterOf(given: Reference, known: Record<string, Reference>): Reference {
  const name = stepsOf(given.$ref ?? '')?.at(-1);
  const target = name !== undefined && Object.hasOwn(known, name) ? known[name] : undefined;
  return target === undefined || target === given ? given : parameterOf(target, known);
}

/** Returns the function that copies what is at a place of some kind. */
function copier({ document, unfilled }: Contract) {
  const ownersOfUnfilled = new Set(
    unfilled.map((path) =>
      path.slice(0, -1).reduce<unknown>((value, step) => (value as Fields)[step], document),
    ),
  );
  const copy = (value: unknown, kind: string): unknown => {
    if (Array.isArray(value)) return value.map((item) => copy(item, kind));
    if (typeof value !== 'object' || value === null) return value;
    if (kind === 'data') return withoutReferences(value);
    const { const: only, enum: allowed } = value as Fields;
    // Its values cannot be written without what looks like a reference.
    if (kind === 'schema' && JSON.stringify([only, allowed]).includes('"$ref":')) return {};
    const entries = Object.entries(value).flatMap(([field, inner]) => {
      const of = kindOf(kind, field);
      const isNamed = kind.endsWith('{}');
      if (!isNamed && (omitted.includes(field) || field.startsWith('x-') || of === 'example{}')) return [];
      if (!isNamed && ['title', 'summary', 'description'].includes(field) && typeof inner !== 'string')
        return [];
      // The handler gets or gives the value, not its JSON.
      if (kind === 'parameter' && field === 'content') return [['schema', copy(schemaOf(inner), 'schema')]];
      if (field === 'default' && ownersOfUnfilled.has(value)) return [];
      if (kind === 'schema' && field === 'discriminator') return [[field, withReferences(inner)]];
      return [[kind === 'response*' ? statusKey(field) : field, copy(inner, of)]];
    });
    return Object.fromEntries(entries) as unknown;
  };
  return copy;
}

/** The schema of the only media type. */
function schemaOf(content: unknown): unknown {
  const [media] = Object.values((content ?? {}) as Record<string, { schema?: unknown }>);
  return media?.schema ?? {};
}

/** A copy of data without members that look like references. */
function withoutReferences(data: unknown): unknown {
  return JSON.parse(JSON.stringify(data), (key, value: unknown) => (key === '$ref' ? undefined : value));
}

function withReferences(discriminator: unknown): unknown {
  const { propertyName, mapping } = (discriminator ?? {}) as Fields;
  if (typeof mapping !== 'object' || mapping === null) return { propertyName };
  const targets = Object.entries(mapping).map(([name, target]: [string, unknown]) => {
    const isName = typeof target === 'string' && !/[#/.]/.test(target);
    return [name, isName ? `#/components/schemas/${target}` : target];
  });
  return { propertyName, mapping: Object.fromEntries(targets) as object };
}

/** A copy of a part of a document with an empty schema in place of each reference to what the document does not have. */
function withoutLostReferences(part: unknown, document: object): unknown {
  const known = new Map<string, boolean>();
  return JSON.parse(JSON.stringify(part), (_, value: unknown) => {
    const { $ref } = (value ?? {}) as { $ref?: unknown };
    if (typeof $ref !== 'string') return value;
    if (!known.has($ref)) known.set($ref, valueAt(document, $ref) !== undefined);
    return known.get($ref) ? value : {};
  });
}

/** What a reference refers to, through other references if need be. */
function valueAt(document: object, reference: string, seen = new Set<string>()): unknown {
  if (seen.has(reference)) return undefined;
  seen.add(reference);
  return stepsOf(reference)?.reduce<unknown>((value, step) => {
    const { $ref } = (value ?? {}) as { $ref?: unknown };
    const isHere = typeof value === 'object' && value !== null && Object.hasOwn(value, step);
    const owner = !isHere && typeof $ref === 'string' ? valueAt(document, $ref, seen) : value;
    return (owner as Fields | null | undefined)?.[step];
  }, document);
}
