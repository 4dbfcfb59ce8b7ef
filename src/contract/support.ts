// What a contract may say: everything that this server can do is listed here, and anything else stops the start.

/** The contract says something that this server cannot do; the message names the operation and the place. */
export class ContractError extends Error {
  override readonly name = 'ContractError';
}

type Fields = Record<string, unknown>;
/** Checks a value; `place` says where it stands. */
type Check = (value: unknown, place: string) => void;

/** For what is checked elsewhere, or by nobody because it asserts nothing. */
const any: Check = () => undefined;
/** What any object of a document may have: it describes and asserts nothing. */
const annotations = {
  title: any,
  summary: any,
  description: any,
  example: any,
  examples: any,
  externalDocs: any,
  deprecated: any,
};

const stop = (place: string, fault: string): never => {
  throw new ContractError(`${place}: ${fault}`);
};

/** An object with annotations, these fields and no others. */
function fields(value: unknown, place: string, known: Readonly<Record<string, Check>>): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return stop(place, 'must be an object');
  for (const [name, field] of Object.entries(value)) {
    const check = new Map(Object.entries({ ...annotations, ...known })).get(name);
    if (check === undefined) return stop(place, `${name} is not supported`);
    check(field, `${place}, ${name}`);
  }
  return value as Fields;
}

const only =
  (...values: unknown[]): Check =>
  (value, place) => {
    if (!values.includes(value)) stop(place, `${JSON.stringify(value)} is not supported`);
  };

const each =
  (check: Check): Check =>
  (value, place) => {
    for (const [name, item] of Object.entries(value as object)) check(item, `${place} ${name}`);
  };

/** Errors that any request of an operation can get: they must be declared. */
const everyOperation = ['400', '429', '500', '503'];
/** The headers of errors that the server sets, in lower case, by status; and of all of them. */
const errorHeaders: Readonly<Record<string, readonly string[]>> = {
  401: ['www-authenticate'],
  403: ['www-authenticate'],
  429: ['retry-after', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'],
  503: ['retry-after'],
};
const formats: Readonly<Record<string, readonly string[]>> = {
  integer: ['int32', 'int64'],
  number: ['float', 'double'],
  string: [
    'date-time',
    'date',
    'time',
    'uuid',
    'email',
    'uri',
    'hostname',
    'ipv4',
    'ipv6',
    'byte',
    'password',
  ],
};

/**
 * Checks that this server does all that a document says. docs/contract.md has the list for people.
 * @throws ContractError naming the operation and the place of what it cannot do.
 */
export function refuseUnsupported(document: object): void {
  const components = ((document as Fields)['components'] ?? {}) as Record<string, Record<string, unknown>>;

  /** What a value is or refers to. Only the components of the document itself can be referred to. */
  function resolved(value: unknown, place: string): Fields {
    const { $ref } = (value ?? {}) as { $ref?: string };
    if ($ref === undefined) return value as Fields;
    const [, kind = '', name = ''] = /^#\/components\/(\w+)\/([\w.-]+)$/.exec($ref) ?? [];
    const target = components[kind]?.[name];
    if (target === undefined || '$ref' in (target as object)) return stop(place, `${$ref} is not supported`);
    return target as Fields;
  }

  /** Where a schema stands decides what it may say: in a URL there is only text. */
  type Use = 'text' | 'request' | 'response';

  function schema(given: unknown, place: string, use: Use, parents: readonly unknown[] = []): Fields {
    const node = resolved(given, place);
    if (parents.includes(node)) stop(place, 'a schema that contains itself is not supported');
    const inner: Check = (value, where) => schema(value, where, use, [...parents, node]);
    const type = node['type'];
    const number: Check = (value, where) => {
      // YAML has rounded it already.
      if (type !== 'number' && Number.isInteger(value) && !Number.isSafeInteger(value))
        stop(where, 'is not exact in a double');
    };
    const plain = {
      type: only('string', 'integer', 'number', 'boolean', ...(use === 'text' ? [] : ['object', 'array'])),
      format: only(...(formats[String(type)] ?? [])),
      enum: each(number),
      ...(use !== 'text' && { nullable: any }),
    };
    const byType: Record<string, Record<string, Check>> = {
      string: { minLength: number, maxLength: number, pattern: any },
      integer: { minimum: number, maximum: number, multipleOf: number },
      number: { minimum: number, maximum: number, multipleOf: number },
      array: { items: inner, minItems: number, maxItems: number, uniqueItems: any },
      object: {
        properties: each(inner),
        required: any,
        additionalProperties: (value, where) => {
          if (typeof value === 'object') inner(value, where);
        },
        minProperties: number,
        maxProperties: number,
      },
    };
    if (type === undefined) stop(place, 'a schema without a type is not supported');
    fields(node, place, { ...plain, ...byType[String(type)] });
    if (type === 'array' && node['items'] === undefined) stop(place, 'items is missing');
    if (node['format'] === 'int64') {
      for (const keyword of ['enum', 'multipleOf']) {
        if (keyword in node) stop(place, `${keyword} is not supported for int64`);
      }
    }
    if (type === 'object') {
      const known = Object.keys(node['properties'] ?? {});
      const missing = ((node['required'] ?? []) as string[]).find((name) => !known.includes(name));
      if (missing !== undefined) stop(place, `requires ${missing}, which is none of its properties`);
      // The handler would never see what it does not know, and the caller would not learn that it is dropped.
      if (use === 'request' && (node['additionalProperties'] ?? true) === true) {
        stop(place, 'an object in a request must say additionalProperties: false, or their schema');
      }
    }
    return node;
  }

  function parameter(given: unknown, place: string): Fields {
    const { name } = resolved(given, place) as { name?: string };
    const where = `${place}, parameter ${name}`;
    return fields(resolved(given, place), where, {
      name: any,
      in: only('path', 'query'),
      required: any,
      style: only(resolved(given, place)['in'] === 'path' ? 'simple' : 'form'),
      explode: any,
      schema: (value, at) => schema(value, at, 'text'),
    });
  }

  function content(value: unknown, place: string, use: Use): Fields | undefined {
    let found: Fields | undefined;
    fields(value, place, {
      'application/json': (media, at) => {
        const { schema: given } = fields(media, at, {
          schema: any,
        });
        if (given === undefined) stop(at, 'schema is missing');
        found = schema(given, at, use);
      },
    });
    return found;
  }

  function header(given: unknown, place: string): void {
    const node = fields(resolved(given, place), place, {
      required: any,
      style: only('simple'),
      explode: any,
      schema: (value, at) => schema(value, at, 'text'),
    });
    if (node['schema'] === undefined) stop(place, 'schema is missing');
  }

  function response(given: unknown, place: string, status: string, isList: boolean): void {
    const { headers = {}, content: body } = fields(resolved(given, place), place, {
      links: any,
      headers: (value, at) => {
        each(header)(value, at);
      },
      content: (value, at) => content(value, at, 'response'),
    });
    const names = Object.keys(headers as object).map((name) => name.toLowerCase());
    if (names.includes('content-type')) stop(place, 'a header Content-Type is not supported');
    if (status < '300') {
      if (status === '204' && body !== undefined) stop(place, 'a 204 with content is not supported');
      return;
    }
    const set =
      status === '304'
        ? ['cache-control', 'etag', 'x-request-id']
        : ['x-request-id', ...(errorHeaders[status] ?? [])];
    const unknown = names.find((name) => !set.includes(name));
    if (unknown !== undefined) stop(place, `a header ${unknown} is not supported`);
    if (status === '304') {
      if (!isList) stop(place, 'it is supported only beside a JSON array');
      if (body !== undefined) stop(place, 'a 304 with content is not supported');
      return;
    }
    const media = (body as Record<string, { schema?: { $ref?: string } }> | undefined)?.['application/json'];
    if (media?.schema?.$ref !== '#/components/schemas/Error')
      stop(place, 'an error must be an Error, by $ref');
  }

  function responses(value: unknown, place: string, security: readonly unknown[], scope: unknown): void {
    const declared = Object.keys(value as object);
    const unknown = declared.find((status) => !/^(20[0124]|304|[45]\d\d)$/.test(status));
    if (unknown !== undefined) stop(place, `${unknown} is not supported`);
    const successes = declared.filter((status) => status.startsWith('2'));
    if (successes.length !== 1) stop(place, 'exactly one success status must be declared');
    const needed = [...everyOperation];
    if (security.length > 0) needed.push('401');
    if (scope !== undefined) needed.push('403');
    const missing = needed.find((status) => !declared.includes(status));
    if (missing !== undefined) stop(place, `${missing} can be answered and is not declared`);
    const all = value as Record<string, unknown>;
    const { content: body } = resolved(all[successes[0] ?? ''], place) as {
      content?: Record<string, { schema: unknown }>;
    };
    const media = body?.['application/json'];
    const isList = media !== undefined && resolved(media.schema, place)['type'] === 'array';
    for (const status of declared) response(all[status], `${place}, response ${status}`, status, isList);
  }

  const securitySchemes = components['securitySchemes'] ?? {};
  function securityRequirements(value: unknown, place: string): readonly Fields[] {
    const requirements = value as Record<string, unknown[]>[];
    for (const requirement of requirements) {
      const [name, ...others] = Object.keys(requirement);
      if (name === undefined) return stop(place, 'optional authentication ({}) is not supported');
      if (others.length > 0)
        stop(place, `schemes joined by AND (${name}, ${others.join(', ')}) are not supported`);
      if (!Object.hasOwn(securitySchemes, name)) stop(place, `${name} is no security scheme of the contract`);
      if ((requirement[name] ?? []).length > 0)
        stop(place, `${name} has no scopes; x-required-scope names the one`);
    }
    return requirements;
  }

  function operation(given: unknown, method: string, path: string): void {
    const place = (given as { operationId?: string }).operationId ?? `${method.toUpperCase()} ${path}`;
    const node = fields(given, place, {
      operationId: any,
      tags: any,
      parameters: any,
      requestBody: (value, at) => {
        const body = fields(resolved(value, at), at, {
          required: only(true),
          content: any,
        });
        if (body['required'] !== true) stop(at, 'a body that may be absent is not supported');
        const root = content(body['content'], at, 'request');
        if (root === undefined) stop(at, 'application/json is missing');
        else if (root['type'] !== 'object' && root['type'] !== 'array')
          stop(at, 'must be an object or an array');
      },
      responses: any,
      security: any,
      'x-required-scope': (value, at) => {
        if (typeof value !== 'string') stop(at, 'must be the name of a scope');
      },
    });
    if (node['operationId'] === undefined) stop(place, 'operationId is missing');
    const takesBody = ['post', 'put', 'patch'].includes(method);
    if (takesBody !== 'requestBody' in node) {
      stop(place, `${method.toUpperCase()} ${takesBody ? 'without' : 'with'} a requestBody is not supported`);
    }
    // Silence is no permission: an operation that is meant to be public says `security: []`.
    const security = node['security'] ?? (document as Fields)['security'];
    if (security === undefined) stop(place, 'security is missing');
    const requirements = securityRequirements(security, place);
    const scope = node['x-required-scope'];
    if (scope !== undefined && requirements.length === 0)
      stop(place, 'a public operation has no x-required-scope');

    const placeholders = [...path.matchAll(/{(\w+)}/g)].map(([, name]) => name);
    const inPath = ((node['parameters'] ?? []) as unknown[])
      .map((one) => parameter(one, place))
      .filter((one) => {
        if (one['schema'] === undefined) stop(place, `parameter ${String(one['name'])} has no schema`);
        return one['in'] === 'path';
      });
    for (const one of inPath) {
      if (!placeholders.includes(one['name'] as string))
        stop(place, `${String(one['name'])} is not in the path`);
    }
    for (const name of placeholders) {
      if (!inPath.some((one) => one['name'] === name))
        stop(place, `the parameter ${name} of the path is missing`);
    }
    responses(node['responses'] ?? {}, place, requirements, scope);
  }

  const byMethod = Object.fromEntries(
    ['get', 'put', 'post', 'delete', 'patch'].map((method) => [method, any]),
  );
  fields(document, 'The contract', {
    openapi: (value, place) => {
      if (!/^3\.0\.\d+$/.test(String(value))) stop(place, `${String(value)} is not supported: 3.0 is`);
    },
    info: any,
    tags: any,
    servers: each((server, place) => {
      const { url } = fields(server, place, { url: any });
      if (url !== '/' && !/^https?:\/\//.test(String(url))) {
        stop(place, `${String(url)} is not supported: paths start at /, or an absolute URL says where`);
      }
    }),
    security: securityRequirements,
    components: (value, place) =>
      fields(value, place, {
        securitySchemes: each((scheme, at) => {
          const { type } = scheme as { type?: string };
          const common = { type: only('http', 'apiKey') };
          if (type === 'http') fields(scheme, at, { ...common, scheme: only('bearer'), bearerFormat: any });
          else fields(scheme, at, { ...common, name: any, in: only('header') });
        }),
        // What is not referred to says nothing; what is, is checked where it is used.
        schemas: any,
        responses: any,
        parameters: any,
        requestBodies: any,
        headers: any,
        links: any,
      }),
    paths: (value, place) => {
      for (const [path, item] of Object.entries(value as object)) {
        const at = `${place} ${path}`;
        if (!/^(\/|(\/([\w.~-]+|{\w+}))+\/?)$/.test(path)) stop(at, 'such a path is not supported');
        const node = fields(item, at, byMethod);
        for (const method of Object.keys(byMethod)) {
          if (node[method] !== undefined) operation(node[method], method, path);
        }
      }
    },
  });
}
