// Reads a request as its operation declares it: parameters and body, validated and converted for the handler.
import type { FastifyRequest } from 'fastify';
import { mostSpecific, parseMediaType } from '../../contract/media-type.js';
import type { Operation } from '../../contract/operations.js';
import type { ParameterPlace } from '../../contract/parameters.js';
import { anySchema, nothing, type Schema } from '../../contract/schema/schema.js';
import { shapeOf } from '../../contract/schema/shape.js';
import { addressOf } from '../headers/client-address.js';
import { ApiError, joinErrors, missingBody, type ErrorKind, type RequestFault } from '../../base/errors.js';
import { cookiesOf } from '../headers/cookies.js';
import { acceptedTypes, type BodyContent } from '../../contract/body.js';
import { parseJson } from './body.js';
import { requestFaults, textOf } from './validation/fault-messages.js';
import type { ValueSource } from './validation/fault-messages.js';
import { createSplitter } from './delimited.js';
import { createFormReader } from './forms.js';
import { nothingRead } from './json-bounds.js';
import { createTextReader, readerOf, type Values } from './texts.js';
import { compileForRequests, type Compiler } from './validation/validation.js';

/** The input of a handler. */
export interface Input {
  readonly caller: unknown;
  readonly address: string;
  readonly params: unknown;
  readonly query: unknown;
  readonly headers?: unknown;
  readonly cookies?: unknown;
  readonly body: unknown;
}

/** Reads the requests of an operation. */
export interface RequestReader {
  /** @throws ApiError that describes the faults of all parts. */
  readonly read: (request: FastifyRequest) => Input;
  /** Adds the faults of the other parts to an error of a body that could not be read. */
  readonly complete: (error: ApiError, request: FastifyRequest) => ApiError;
}

/** The context of a reader, besides the operation. */
export interface ReaderOptions {
  compiler: Compiler;
  /** Query parameters that belong to the authentication. */
  credentials: readonly string[];
  /** Whether bodies of other media types than the operation's can have been parsed. */
  checksType: boolean;
  /** Maximum nesting of arrays and objects in a long JSON text. */
  maxDepth: number;
  /** Whether a body that the operation does not declare is ignored. */
  ignoresBody: boolean;
}

/** A part of a request, and where a handler gets it. */
interface PartReader {
  readonly part: RequestFault['in'];
  readonly name: Exclude<keyof Input, 'caller' | 'address'>;
  readonly read: (request: FastifyRequest) => unknown;
}

/** Creates the reader of an operation's requests. */
export function createRequestReader(operation: Operation, options: ReaderOptions): RequestReader {
  const parameters = parameterReaders(operation, options);
  const parts = [
    ...parameters,
    { part: 'body', name: 'body', read: bodyReader(operation, options) } satisfies PartReader,
  ];
  const hasPath = parameters.some(({ part }) => part === 'path');
  return {
    read(request) {
      const input = {
        caller: request.caller,
        address: addressOf(request),
        params: hasPath ? undefined : {},
        query: undefined,
        body: undefined,
      };
      const errors = readParts(parts, request, input);
      if (errors !== undefined) throw joinErrors(errors);
      return input;
    },
    complete(error, request) {
      return joinErrors([...(readParts(parameters, request, {}) ?? []), ['body', error]]);
    },
  };
}

/** Reads parts of a request. @returns The errors of those that are wrong; undefined if none is. */
function readParts(
  parts: readonly PartReader[],
  request: FastifyRequest,
  input: { -readonly [Name in keyof Input]?: Input[Name] },
): [RequestFault['in'], ApiError][] | undefined {
  let errors: [RequestFault['in'], ApiError][] | undefined;
  for (const { part, name, read } of parts) {
    try {
      input[name] = read(request);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      (errors ??= []).push([part, error]);
    }
  }
  return errors;
}

const kinds: Readonly<Record<ParameterPlace, ErrorKind>> = {
  path: 'invalidPath',
  query: 'invalidQuery',
  header: 'invalidHeader',
  cookie: 'invalidHeader',
};

/** Returns the readers of the parameters, in the order of the parts. */
function parameterReaders(operation: Operation, options: ReaderOptions): PartReader[] {
  const params = paramsOf(operation);
  const places = [
    { part: 'path', name: 'params', take: (request: FastifyRequest) => params(request.params as Values) },
    { part: 'query', name: 'query', take: (request: FastifyRequest) => request.query as Values },
    { part: 'header', name: 'headers', take: (request: FastifyRequest) => pick(request.headers, operation) },
    { part: 'cookie', name: 'cookies', take: (request: FastifyRequest) => ({ ...cookiesOf(request.raw) }) },
  ] as const;
  return places.flatMap(({ part, name, take }): PartReader[] => {
    const read = partReader(operation, part, options);
    return read === undefined ? [] : [{ part, name, read: (request) => read(take(request), request.url) }];
  });
}

/** Returns the function that reads parameters in place; undefined if there are none, except in a query. */
function partReader(
  { parameters, path }: Operation,
  place: ParameterPlace,
  { compiler, credentials, maxDepth }: ReaderOptions,
): ((values: Values, url: string) => Values) | undefined {
  const own = parameters.filter((parameter) => parameter.in === place);
  if (own.length === 0 && place !== 'query') return undefined;
  const others = place === 'query' ? credentials.map((name) => [name, anySchema]) : [];
  const properties = Object.fromEntries([
    ...others,
    ...own.map(({ name, schema }) => [name, schema]),
  ]) as Record<string, Schema>;
  const check = partChecker(compiler, place, kinds[place], 'text', {
    type: ['object'],
    properties,
    required: own.filter(({ required }) => required).map(({ name }) => name),
    // Unknown query parameters are refused, like unknown fields of a body.
    ...(place === 'query' && { additionalProperties: nothing }),
  });
  const split = createSplitter(own, place, path);
  const read = createTextReader(
    own.map((parameter) => ({ ...parameter, shape: shapeOf(parameter.schema) })),
    (text) => readJson(text, maxDepth),
  );
  return (values, url) => {
    split?.(values, url);
    read(values);
    return check(values) as Values;
  };
}

/** Parses JSON inside a part. @returns A symbol that describes the fault, if it cannot be parsed. */
function readJson(text: string, maxDepth: number, read = nothingRead()): unknown {
  try {
    return parseJson(text, maxDepth, undefined, read);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { kind, detail } = error;
    return Symbol(`${kind === 'malformedJson' ? 'is not well-formed JSON' : 'is too large'}: ${detail!}`);
  }
}

/** Returns the function that validates and reads a part of a request. */
function partChecker(
  compiler: Compiler,
  part: RequestFault['in'],
  kind: ErrorKind,
  source: ValueSource,
  schema: Schema,
): (data: unknown) => unknown {
  const compiled = compileForRequests(compiler, schema, source);
  return (data) => {
    const { value, faults } = compiled.read(data);
    if (faults.length === 0) return value;
    throw new ApiError(kind, {
      detail: textOf(faults),
      faults: () => requestFaults(faults, part),
    });
  };
}

function bodyReader({ body }: Operation, options: ReaderOptions): (request: FastifyRequest) => unknown {
  if (body === undefined) {
    return (request) => {
      if (request.body === undefined || options.ignoresBody) return undefined;
      throw new ApiError('invalidBody', { detail: 'the operation takes no body' });
    };
  }
  const { contents, required } = body;
  const checks = contents.map((content) => ({
    range: content.range,
    check: contentChecker(content, options),
  }));
  const [only] = checks;
  const isPlain = !options.checksType && contents.every(({ name }) => name === 'application/json');
  return (request) => {
    const data: unknown = request.body;
    if (data === undefined) {
      if (required) throw missingBody();
      return undefined;
    }
    const found = isPlain
      ? only
      : mostSpecific(checks, parseMediaType(request.headers['content-type'] ?? ''));
    if (found !== undefined) return found.check(data);
    throw new ApiError('unsupportedMediaType', { detail: `here, send ${acceptedTypes(body)}` });
  };
}

/** Returns the function that validates and converts a body. */
function contentChecker(
  content: BodyContent,
  { compiler, maxDepth }: ReaderOptions,
): (data: unknown) => unknown {
  const { format, schema } = content;
  const isForm = format === 'form' || format === 'multipart';
  const check = partChecker(compiler, 'body', 'invalidBody', format === 'json' ? 'json' : 'text', schema);
  if (!isForm) {
    const read =
      format === 'text' ? readerOf({ ...content.otherField, name: '', shape: shapeOf(schema) }) : undefined;
    return read === undefined ? check : (data) => check(read(data));
  }
  // A form is read without interruption.
  let found = nothingRead();
  const read = createFormReader(content, (text) => readJson(text, maxDepth, found));
  return (data) => {
    found = nothingRead();
    return check(read(data));
  };
}

/** Returns the function that gives path parameters the names of the contract. */
function paramsOf({ route: { names, path } }: Operation): (params: Values) => Values {
  const entries = Object.entries(names);
  if (!path.includes('*') && entries.every(([name, routed]) => name === routed)) return (params) => params;
  return (params) => Object.fromEntries(entries.map(([name, routed]) => [name, params[routed]]));
}

function pick(headers: FastifyRequest['headers'], { parameters }: Operation): Values {
  const values = Object.create(null) as Values;
  for (const { name, in: place } of parameters) {
    const key = name.toLowerCase();
    if (place === 'header' && Object.hasOwn(headers, key)) values[name] = headers[key];
  }
  return values;
}
