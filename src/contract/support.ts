// Lists the OpenAPI features that this server supports; a contract that uses any other stops the start.
import { isFast } from './pattern.js';

/** The contract uses an unsupported feature; the message names the operation and the location. */
export class ContractError extends Error {
  override readonly name = 'ContractError';
}

type Fields = Record<string, unknown>;
/** Checks a value; `place` is its location, for the message. */
type Check = (value: unknown, place: string) => void;

/** For values that are checked elsewhere, or that only describe. */
const anything: Check = () => undefined;
/** Fields that any object of a document may have, and that only describe it. */
const annotations = {
  title: anything,
  summary: anything,
  description: anything,
  example: anything,
  examples: anything,
  externalDocs: anything,
  deprecated: anything,
};

/** Stops the start unless a condition is true. */
function must(holds: boolean, place: string, fault: string): asserts holds {
  if (!holds) throw new ContractError(`${place}: ${fault}`);
}

/** Checks an object that may have annotations and the `known` fields only, and must have the `needed` ones. */
function fields(
  value: unknown,
  place: string,
  known: Readonly<Record<string, Check>>,
  ...needed: string[]
): Fields {
  must(typeof value === 'object' && value !== null && !Array.isArray(value), place, 'must be an object');
  const checks = new Map(Object.entries({ ...annotations, ...known }));
  for (const [name, field] of Object.entries(value)) {
    const check = checks.get(name);
    must(check !== undefined, place, `${name} is not supported`);
    check(field, `${place}, ${name}`);
  }
  for (const name of needed) must(name in value, place, `${name} is missing`);
  return value as Fields;
}

/** Checks a pattern that is applied to requests. */
const pattern: Check = (value, place) => {
  try {
    new RegExp(String(value), 'u');
  } catch (error) {
    throw new ContractError(`${place}: ${(error as Error).message}`, { cause: error });
  }
  must(
    isFast(String(value)),
    place,
    `${String(value)} could take too long to match: begin it with ^, repeat at most one part without a limit, ` +
      'limit the others as in {1,20}, and repeat no part that can match in several ways',
  );
};

const only =
  (...values: unknown[]): Check =>
  (value, place) => {
    must(values.includes(value), place, `${JSON.stringify(value)} is not supported`);
  };

const each =
  (check: Check): Check =>
  (value, place) => {
    for (const [name, item] of Object.entries(value as object)) check(item, `${place} ${name}`);
  };

/** Statuses that any operation can return, and must therefore declare. */
const everyOperation = ['400', '429', '500', '503'];
/** Headers that the server sets in addition to X-Request-Id, in lower case, by status. */
const setHeaders: Readonly<Record<string, readonly string[]>> = {
  304: ['cache-control', 'etag'],
  401: ['www-authenticate'],
  403: ['www-authenticate'],
  429: ['retry-after', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'],
  503: ['retry-after'],
};
const stringFormats = 'date-time date time uuid email uri hostname ipv4 ipv6 byte password';
const formats: Readonly<Record<string, readonly string[]>> = {
  integer: ['int32', 'int64'],
  number: ['float', 'double'],
  string: stringFormats.split(' '),
};
const methodsWithBody = ['post', 'put', 'patch'];

/**
 * Checks that this server supports everything in a document. docs/contract.md has the same list in prose.
 * @throws ContractError naming the operation and the location of the first unsupported feature.
 */
export function refuseUnsupported(document: object): void {
  const { components: kinds = {}, security: common } = document as Fields;
  const components = kinds as Record<string, Record<string, unknown>>;

  /** Resolves a reference, which must point to the document's own components; returns any other value unchanged. */
  function resolved(value: unknown, place: string): Fields {
    const { $ref } = (value ?? {}) as { $ref?: string };
    if ($ref === undefined) return value as Fields;
    const [, kind = '', name = ''] = /^#\/components\/(\w+)\/([\w.-]+)$/.exec($ref) ?? [];
    const target = components[kind]?.[name] as Fields | undefined;
    must(target !== undefined && !('$ref' in target), place, `${$ref} is not supported`);
    return target;
  }

  /** Where a schema is used; URLs and headers contain only text. */
  type Use = 'text' | 'request' | 'response';

  function schema(given: unknown, place: string, use: Use, parents: readonly unknown[] = []): Fields {
    const node = resolved(given, place);
    must(!parents.includes(node), place, 'a schema that contains itself is not supported');
    const inner: Check = (value, where) => schema(value, where, use, [...parents, node]);
    const { type, format, properties = {}, required = [], additionalProperties = true } = node;
    must(typeof type === 'string', place, 'a schema without a type is not supported');
    const number: Check = (value, where) => {
      // The YAML parser may have rounded it.
      const exact = type === 'number' || !Number.isInteger(value) || Number.isSafeInteger(value);
      must(exact, where, 'must be a safe integer');
    };
    const uniqueItems: Check = (value, where) => {
      // Of requests: Ajv compares objects and arrays in pairs, and so all items that are converted first.
      const isCheap = use === 'response' || resolved(node['items'], where)['type'] === 'string';
      must(value === false || isCheap, where, 'is supported only for strings');
    };
    const bounds = { minimum: number, maximum: number, multipleOf: number };
    const byType: Record<string, Record<string, Check>> = {
      string: { minLength: number, maxLength: number, pattern: use === 'response' ? anything : pattern },
      integer: bounds,
      number: bounds,
      array: { items: inner, minItems: number, maxItems: number, uniqueItems },
      object: {
        properties: each(inner),
        required: anything,
        additionalProperties: (value, where) => {
          if (typeof value === 'object') inner(value, where);
        },
        minProperties: number,
        maxProperties: number,
      },
    };
    fields(node, place, {
      type: only('string', 'integer', 'number', 'boolean', ...(use === 'text' ? [] : ['object', 'array'])),
      format: only(...(formats[type] ?? [])),
      enum: each(number),
      ...(use !== 'text' && { nullable: anything }),
      ...byType[type],
    });
    must(type !== 'array' || 'items' in node, place, 'items is missing');
    const asksMore = ['enum', 'multipleOf'].find((keyword) => format === 'int64' && keyword in node);
    must(asksMore === undefined, place, `${asksMore} is not supported for int64`);
    const unknown = (required as string[]).find((name) => !Object.hasOwn(properties as object, name));
    must(unknown === undefined, place, `requires ${unknown}, which is not one of its properties`);
    // Otherwise unknown fields would be dropped without the caller noticing.
    const isOpen = type === 'object' && use === 'request' && additionalProperties === true;
    must(!isOpen, place, 'an object in a request must set additionalProperties to false or a schema');
    return node;
  }

  /** The fields that parameters and headers have in common. */
  const textual = (style: string) => ({
    required: anything,
    style: only(style),
    explode: anything,
    schema: (value: unknown, at: string) => schema(value, at, 'text'),
  });

  function parameter(given: unknown, place: string): { name: string; in: string } {
    const node = resolved(given, place) as { name: string; in: string };
    const known = {
      name: anything,
      in: only('path', 'query'),
      ...textual(node.in === 'path' ? 'simple' : 'form'),
    };
    fields(node, `${place}, parameter ${node.name}`, known, 'name', 'in', 'schema');
    return node;
  }

  /** Checks JSON content and returns its schema; undefined without content. */
  function content(value: unknown, place: string, use: Use): Fields | undefined {
    if (value === undefined) return undefined;
    const json = fields(value, place, { 'application/json': anything }, 'application/json')[
      'application/json'
    ];
    const at = `${place}, application/json`;
    return schema(fields(json, at, { schema: anything }, 'schema')['schema'], at, use);
  }

  /** Checks a response and returns the schema of its content. */
  function response(given: unknown, place: string, status: string): Fields | undefined {
    const header: Check = (value, at) => fields(resolved(value, at), at, textual('simple'), 'schema');
    const node = fields(resolved(given, place), place, {
      links: anything,
      headers: each(header),
      content: anything,
    });
    const body = content(node['content'], `${place}, content`, 'response');
    const names = Object.keys(node['headers'] ?? {}).map((name) => name.toLowerCase());
    const set = ['x-request-id', ...(setHeaders[status] ?? [])];
    // The handler sets the headers of a success response.
    const unset = names.find((name) => (status < '300' ? name === 'content-type' : !set.includes(name)));
    must(unset === undefined, place, `a header ${unset} is not supported`);
    must(body === undefined || !['204', '304'].includes(status), place, 'content is not supported');
    must(
      status < '400' || body === components['schemas']?.['Error'],
      place,
      'an error must refer to the Error schema ($ref)',
    );
    return body;
  }

  function responses(value: unknown, place: string, isSecured: boolean, isScoped: boolean): void {
    const all = Object.entries(value as object);
    const bodies = new Map<string, Fields | undefined>();
    for (const [status, declared] of all) {
      must(/^(20[0124]|304|[45]\d\d)$/.test(status), place, `${status} is not supported`);
      bodies.set(status, response(declared, `${place}, response ${status}`, status));
    }
    const [success, ...others] = [...bodies.keys()].filter((status) => status.startsWith('2'));
    must(success !== undefined && others.length === 0, place, 'exactly one success status must be declared');
    const needed = [...everyOperation, ...(isSecured ? ['401'] : []), ...(isScoped ? ['403'] : [])];
    const missing = needed.find((status) => !bodies.has(status));
    must(missing === undefined, place, `${missing} can be returned but is not declared`);
    const isList = bodies.get(success)?.['type'] === 'array';
    must(isList || !bodies.has('304'), place, '304 is supported only for a JSON array');
  }

  /** Checks the security requirements and returns whether there are any. */
  function security(value: unknown, place: string): boolean {
    // A public operation must say so explicitly, with `security: []`.
    must(Array.isArray(value), place, 'security is missing');
    for (const requirement of value as Record<string, unknown[]>[]) {
      const [name, ...others] = Object.keys(requirement);
      must(name !== undefined, place, 'optional authentication ({}) is not supported');
      const joined = [name, ...others].join(', ');
      must(others.length === 0, place, `schemes joined by AND (${joined}) are not supported`);
      const isDefined = Object.hasOwn(components['securitySchemes'] ?? {}, name);
      must(isDefined, place, `${name} is not a security scheme of the contract`);
      must(requirement[name]?.length === 0, place, `${name} cannot have scopes; use x-required-scope`);
    }
    return value.length > 0;
  }

  function operation(given: unknown, method: string, path: string): void {
    const place = (given as { operationId?: string }).operationId ?? `${method.toUpperCase()} ${path}`;
    const known = {
      tags: anything,
      parameters: anything,
      requestBody: anything,
      responses: anything,
      security: anything,
    };
    const node = fields(
      given,
      place,
      { ...known, operationId: anything, 'x-required-scope': anything },
      'operationId',
    );

    const parameters = ((node['parameters'] ?? []) as unknown[]).map((one) => parameter(one, place));
    const keys = parameters.map((one) => `${one.in} ${one.name}`);
    const repeated = keys.find((key, i) => keys.indexOf(key) !== i);
    must(repeated === undefined, place, `the parameter ${repeated} is declared twice`);
    const placeholders = [...path.matchAll(/{(\w+)}/g)].map(([, name]) => `path ${name}`);
    const undeclared = placeholders.find((key) => !keys.includes(key));
    must(undeclared === undefined, place, `the parameter ${undeclared} is missing`);
    const misplaced = keys.find((key) => key.startsWith('path ') && !placeholders.includes(key));
    must(misplaced === undefined, place, `the parameter ${misplaced} is not in the path`);

    const takesBody = methodsWithBody.includes(method);
    const fault = `${method.toUpperCase()} ${takesBody ? 'without' : 'with'} a requestBody is not supported`;
    must(takesBody === 'requestBody' in node, place, fault);
    if (takesBody) {
      const at = `${place}, requestBody`;
      const body = fields(
        resolved(node['requestBody'], at),
        at,
        { required: anything, content: anything },
        'content',
      );
      must(body['required'] === true, at, 'an optional body is not supported');
      const type = content(body['content'], at, 'request')?.['type'];
      must(type === 'object' || type === 'array', at, 'must be an object or an array');
    }
    const isSecured = security(node['security'] ?? common, place);
    const scope = node['x-required-scope'];
    must(
      scope === undefined || typeof scope === 'string',
      place,
      'x-required-scope must be the name of a scope',
    );
    must(scope === undefined || isSecured, place, 'a public operation cannot have x-required-scope');
    responses(node['responses'] ?? {}, place, isSecured, scope !== undefined);
  }

  const paths: Check = (value, place) => {
    for (const [path, item] of Object.entries(value as object)) {
      const at = `${place} ${path}`;
      must(/^(\/|(\/([\w.~-]+|{\w+}))+\/?)$/.test(path), at, 'a path of this form is not supported');
      const byMethod = ['get', 'delete', ...methodsWithBody].map(
        (method) =>
          [
            method,
            (given: unknown) => {
              operation(given, method, path);
            },
          ] as const,
      );
      fields(item, at, Object.fromEntries(byMethod));
    }
  };
  const server: Check = (value, place) => {
    const url = String(fields(value, place, { url: anything }, 'url')['url']);
    const fault = `${url} is not supported: it must be / or an absolute URL`;
    must(url === '/' || /^https?:\/\//.test(url), place, fault);
  };
  const securityScheme: Check = (value, place) => {
    const isHttp = (value as Fields)['type'] === 'http';
    const known: Record<string, Check> = isHttp
      ? { scheme: only('bearer'), bearerFormat: anything }
      : { name: anything, in: only('header') };
    fields(value, place, { type: only('http', 'apiKey'), ...known });
  };
  // Components are checked where they are used; unused ones have no effect.
  const unchecked = {
    schemas: anything,
    responses: anything,
    parameters: anything,
    requestBodies: anything,
    headers: anything,
    links: anything,
  };
  fields(document, 'The contract', {
    openapi: (value, place) => {
      must(/^3\.0\.\d+$/.test(String(value)), place, `${String(value)} is not supported; use OpenAPI 3.0`);
    },
    info: anything,
    tags: anything,
    servers: each(server),
    security: anything,
    components: (value, place) =>
      fields(value, place, { ...unchecked, securitySchemes: each(securityScheme) }),
    paths,
  });
}
