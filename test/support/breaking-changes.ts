// Finds changes of the contract that break its users, with api-smart-diff and our own rules for changes that it
// considers harmless.
import { apiCompare } from 'api-smart-diff';
import { isDeepStrictEqual } from 'node:util';

/** Any JSON object of a document. */
type Json = Record<string, unknown>;

const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];

/**
 * Finds the changes that would break the callers of an API, or the code generated for them.
 * @param before - The OpenAPI document that they use.
 * @param after - The document that replaces it.
 * @returns A line for each breaking change; two rules may report the same one.
 */
export function breakingChanges(before: object, after: object): string[] {
  const { diffs } = apiCompare(withRanges(before), withRanges(after));
  const found = diffs
    // Components are compared where they are used, since by themselves they are neither request nor response.
    .filter(({ type, path }) => type === 'breaking' && path[0] === 'paths')
    .map(({ action, path }) => `${path.join(' ')}: ${action}`);

  const old = dereference(before as Json, before as Json);
  const now = dereference(after as Json, after as Json);
  const addresses = ({ servers = [] }: Json) => (servers as Json[]).map(({ url }) => url);
  // Further addresses may be added after them.
  if (addresses(old).some((url, i) => addresses(now)[i] !== url)) found.push('servers: another address');
  for (const code of errorCodes(old)) {
    if (!errorCodes(now).has(code)) found.push(`error codes: ${code} is gone`);
  }
  for (const [path, item] of Object.entries(object(old['paths']))) {
    for (const method of methods) {
      const operation = object(item)[method];
      const successor = object(object(object(now['paths'])[path])[method]);
      if (operation === undefined || successor['responses'] === undefined) continue;
      found.push(...operationBreaks(`${method} ${path}`, [old, object(operation)], [now, successor]));
    }
  }
  return found;
}

function operationBreaks(where: string, [old, before]: [Json, Json], [now, after]: [Json, Json]): string[] {
  const found: string[] = [];
  if (before['operationId'] !== after['operationId']) found.push(`${where}: another operationId`);
  if (!isDeepStrictEqual(access(old, before), access(now, after))) found.push(`${where}: another security`);

  const body = object(before['requestBody']);
  const newBody = object(after['requestBody']);
  if (body['required'] !== true && newBody['required'] === true) found.push(`${where}: a required body`);
  for (const [media, schema, successor] of schemas(body, newBody)) {
    found.push(...requestBreaks(`${where} ${media}`, schema, successor));
  }

  for (const [status, response] of Object.entries(object(before['responses']))) {
    const successor = object(object(after['responses'])[status]);
    for (const [name, header] of Object.entries(object(object(response)['headers']))) {
      const newHeader = object(object(successor['headers'])[name]);
      if (object(header)['required'] === true && newHeader['required'] !== true)
        found.push(`${where} ${status}: the header ${name} is no longer certain`);
    }
    for (const [media, schema, newSchema] of schemas(object(response), successor)) {
      found.push(...responseBreaks(`${where} ${status} ${media}`, schema, newSchema));
    }
  }
  return found;
}

/** Returns the credentials that a caller needs: the security of an operation, with its schemes, and the scope. */
function access(document: Json, operation: Json): unknown {
  const security = (operation['security'] ?? document['security'] ?? []) as Json[];
  const known = object(object(document['components'])['securitySchemes']);
  const schemes = security.flatMap((requirement) => Object.keys(requirement)).map((name) => known[name]);
  return { security, scope: operation['x-required-scope'], schemes: schemes.map(withoutDescription) };
}

function withoutDescription(scheme: unknown): Json {
  const copy = { ...object(scheme) };
  delete copy['description'];
  return copy;
}

/** Pairs the schemas of a content before and after; api-smart-diff reports a removed media type. */
function schemas(before: Json, after: Json): [media: string, before: Json, after: Json][] {
  return Object.entries(object(before['content'])).flatMap(([media, type]) => {
    const { schema } = object(type);
    const successor = object(object(after['content'])[media])['schema'];
    return successor === undefined ? [] : [[media, object(schema), object(successor)]];
  });
}

/** Finds what is no longer accepted: a field that a closed schema no longer lists, or an open schema that is closed. */
function requestBreaks(where: string, before: Json, after: Json): string[] {
  const found: string[] = [];
  const isClosed = after['additionalProperties'] === false;
  if (isClosed && before['additionalProperties'] !== false) found.push(`${where}: no other fields any more`);
  for (const [name, schema] of Object.entries(object(before['properties']))) {
    const successor = object(after['properties'])[name];
    if (successor !== undefined)
      found.push(...requestBreaks(`${where} ${name}`, object(schema), object(successor)));
    else if (isClosed) found.push(`${where}: the field ${name} is no longer taken`);
  }
  for (const [name, one, other] of parts(before, after))
    found.push(...requestBreaks(`${where} ${name}`, one, other));
  return found;
}

/** Finds what callers can no longer rely on: a field, its type, or that it is not null. */
function responseBreaks(where: string, before: Json, after: Json): string[] {
  const found: string[] = [];
  if (!isDeepStrictEqual(before['type'], after['type'])) found.push(`${where}: another type`);
  if (before['nullable'] !== true && after['nullable'] === true) found.push(`${where}: may be null`);
  for (const [name, schema] of Object.entries(object(before['properties']))) {
    const successor = object(after['properties'])[name];
    if (successor === undefined) found.push(`${where}: the field ${name} is gone`);
    else found.push(...responseBreaks(`${where} ${name}`, object(schema), object(successor)));
  }
  if (before['items'] !== undefined)
    found.push(...responseBreaks(`${where} items`, object(before['items']), object(after['items'])));
  for (const [name, one, other] of parts(before, after))
    found.push(...responseBreaks(`${where} ${name}`, one, other));
  return found;
}

/** Pairs the parts of two compositions that have the same place. */
function parts(before: Json, after: Json): [name: string, before: Json, after: Json][] {
  return ['allOf', 'anyOf', 'oneOf'].flatMap((keyword) =>
    Object.entries(object(before[keyword])).flatMap(([i, part]): [string, Json, Json][] => {
      const successor = object(after[keyword])[i];
      return successor === undefined ? [] : [[`${keyword} ${i}`, object(part), object(successor)]];
    }),
  );
}

/** The codes in the tables of the descriptions, of the API or of its schemas. */
function errorCodes(document: Json): Set<string> {
  const described = [document['info'], ...Object.values(object(object(document['components'])['schemas']))];
  return new Set(
    described.flatMap((one) => String(object(one)['description']).match(/^\| \d{5}(?= \|)/gm) ?? []),
  );
}

/** A copy of a document in which the range of every int32 is written out: stating it changes nothing. */
function withRanges(document: object): object {
  return JSON.parse(JSON.stringify(document), (_, value: unknown) =>
    object(value)['format'] === 'int32'
      ? { minimum: -(2 ** 31), maximum: 2 ** 31 - 1, ...object(value) }
      : value,
  ) as object;
}

/** A copy of a part of a document in which every reference is resolved, except to what contains it. */
function dereference(node: Json, document: Json, outer: readonly string[] = []): Json {
  return JSON.parse(JSON.stringify(node), (_, value: unknown) => {
    const reference = object(value)['$ref'];
    if (typeof reference !== 'string' || outer.includes(reference)) return value;
    const target = reference
      .slice(2)
      .split('/')
      .reduce<unknown>((at, key) => object(at)[key.replaceAll('~1', '/').replaceAll('~0', '~')], document);
    return dereference(object(target), document, [...outer, reference]);
  }) as Json;
}

function object(value: unknown): Json {
  return typeof value === 'object' && value !== null ? (value as Json) : {};
}
