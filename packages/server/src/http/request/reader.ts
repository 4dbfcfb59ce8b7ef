// Reads a request as its operation declares it: parameters and body, validated and converted for the handler.
import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Operation } from '../../contract/operations.js';
import type { Parameter, ParameterPlace } from '../../contract/parameters.js';
import { anySchema, nothing, type Schema } from '../../contract/schema/schema.js';
import { anything, propertyOf, shapeOf } from '../../contract/schema/shape.js';
import { addressOf } from '../headers/client-address.js';
import {
  ApiError,
  isApiError,
  joinErrors,
  listedFaults,
  missingBody,
  type ErrorKind,
  type RequestFault,
} from '../../base/errors.js';
import { cookiesOf } from '../headers/cookies.js';
import { acceptedTypes, contentFinder, type BodyContent } from '../../contract/body.js';
import { textOf, type ValueSource } from './validation/fault-messages.js';
import { createTextReader, type Values } from './texts.js';
import type { Compiler } from './validation/validation.js';

/** The input of a handler. All its fields are there from the start: V8 would forget a shape that they give it later. */
class Input {
  readonly caller: unknown;
  readonly address: string;
  params: unknown = {};
  query: unknown = undefined;
  headers: unknown = undefined;
  cookies: unknown = undefined;
  body: unknown = undefined;
  readonly #response: ServerResponse;
  #departure: AbortController | undefined;

  constructor(request: FastifyRequest, response: ServerResponse) {
    this.caller = request.caller;
    this.address = addressOf(request);
    this.#response = response;
  }

  /**
   * Aborts when the client leaves before it has the whole response; made when a handler asks for it. That of Fastify
   * follows the 'close' of the request, which Node emits as soon as the body has been read.
   */
  get signal(): AbortSignal {
    if (this.#departure === undefined) {
      const departure = new AbortController();
      const response = this.#response;
      const abort = () => {
        if (!response.writableFinished) departure.abort();
      };
      if (response.destroyed || response.req.socket.destroyed) abort();
      else response.once('close', abort);
      this.#departure = departure;
    }
    return this.#departure.signal;
  }
}

/** The context of a reader, besides the operation. */
export interface ReaderOptions {
  compiler: Compiler;
  /** Query parameters that belong to the authentication. */
  credentials: readonly string[];
  /** Whether a body that the operation does not declare is ignored. */
  ignoresBody: boolean;
}

/** A part of a request, and where a handler gets it. */
interface PartReader {
  readonly part: RequestFault['in'];
  readonly name: Exclude<keyof Input, 'caller' | 'address' | 'signal'>;
  readonly read: (request: FastifyRequest) => unknown;
}

/** A place of parameters. */
interface Place {
  readonly part: ParameterPlace;
  readonly name: PartReader['name'];
  /** The kind of its faults. */
  readonly kind: ErrorKind;
  /** Gets the operation with the parameters of this place only. */
  readonly valuesIn: (request: FastifyRequest, operation: Operation) => Values;
}

/** The places of parameters, in the order of their faults. */
const places: readonly Place[] = [
  {
    part: 'path',
    name: 'params',
    kind: 'invalidPath',
    valuesIn: ({ params }, { route }) => renamed(params as Values, route.names),
  },
  { part: 'query', name: 'query', kind: 'invalidQuery', valuesIn: ({ query }) => query as Values },
  {
    part: 'header',
    name: 'headers',
    kind: 'invalidHeader',
    valuesIn: ({ headers }, { parameters }) => headersOf(headers, parameters),
  },
  {
    part: 'cookie',
    name: 'cookies',
    kind: 'invalidHeader',
    valuesIn: ({ raw }) => ({ ...cookiesOf(raw) }),
  },
];

/**
 * Returns the function that reads an operation's requests, whose bodies a hook has read.
 * @throws ApiError that describes the faults of all parts.
 */
export function createRequestReader(
  operation: Operation,
  options: ReaderOptions,
): (request: FastifyRequest, reply: FastifyReply) => Input {
  const parts: readonly PartReader[] = [
    ...places.flatMap((place) => parameterReader(operation, place, options) ?? []),
    { part: 'body', name: 'body', read: bodyReader(operation, options) },
  ];
  return (request, reply) => {
    const input = new Input(request, reply.raw);
    const errors: [RequestFault['in'], ApiError][] = [];
    for (const { part, name, read } of parts) {
      try {
        input[name] = read(request);
      } catch (error) {
        if (!isApiError(error)) throw error;
        errors.push([part, error]);
      }
    }
    if (errors.length > 0) throw joinErrors(errors);
    return input;
  };
}

/** Returns the reader of the parameters of a place; undefined if there are none, except in a query. */
function parameterReader(
  operation: Operation,
  { part, name, kind, valuesIn }: Place,
  { compiler, credentials }: ReaderOptions,
): PartReader | undefined {
  const parameters = operation.parameters.filter((parameter) => parameter.in === part);
  if (parameters.length === 0 && part !== 'query') return undefined;
  const others = part === 'query' ? credentials.map((name) => [name, anySchema]) : [];
  const properties = Object.fromEntries([
    ...others,
    ...parameters.map(({ name, schema }) => [name, schema]),
  ]) as Record<string, Schema>;
  const check = partChecker(compiler, part, kind, 'text', {
    type: ['object'],
    properties,
    required: parameters.filter(({ required }) => required).map(({ name }) => name),
    // Unknown query parameters are refused, like unknown fields of a body.
    ...(part === 'query' && { additionalProperties: nothing }),
  });
  const inPlace = { ...operation, parameters };
  const readTexts = createTextReader(
    parameters.map((parameter) => ({ ...parameter, shape: shapeOf(parameter.schema) })),
  );
  return { part, name, read: (request) => check(readTexts(valuesIn(request, inPlace))) };
}

/** Returns the function that validates and reads a part of a request. */
function partChecker(
  compiler: Compiler,
  part: RequestFault['in'],
  kind: ErrorKind,
  source: ValueSource,
  schema: Schema,
): (data: unknown) => unknown {
  const compiled = compiler.compile(schema, source);
  return (data) => {
    const { value, faults } = compiled.read(data);
    if (faults.length === 0) return value;
    throw new ApiError(kind, {
      detail: textOf(faults),
      faults: () => faults.slice(0, listedFaults).map((fault) => ({ in: part, ...fault })),
    });
  };
}

function bodyReader({ body }: Operation, options: ReaderOptions): PartReader['read'] {
  const contents = body?.contents ?? [];
  const find = contentFinder(
    contents.map((content) => ({ ...content, check: contentChecker(content, options) })),
  );
  return ({ body: data, headers }) => {
    if (isApiError(data)) throw data;
    if (data === undefined && body?.required === true) throw missingBody();
    if (data === undefined || (body === undefined && options.ignoresBody)) return undefined;
    if (body === undefined) throw new ApiError('invalidBody', { detail: 'the operation takes no body' });
    const content = find(headers['content-type'] ?? '');
    if (content !== undefined) return content.check(data);
    throw new ApiError('unsupportedMediaType', { detail: `here, send ${acceptedTypes(body)}` });
  };
}

/** Returns the function that validates and converts a body. */
function contentChecker(content: BodyContent, { compiler }: ReaderOptions): (data: unknown) => unknown {
  const { format, schema, fields, otherField } = content;
  const check = partChecker(compiler, 'body', 'invalidBody', format === 'json' ? 'json' : 'text', schema);
  if (format !== 'form' && format !== 'multipart') return check;
  const shape = shapeOf(schema);
  const readTexts = createTextReader(
    fields.map((field) => ({ ...field, shape: propertyOf(shape, field.name) })),
    { ...otherField, shape: shape.additional || anything },
  );
  return (data) => check(readTexts(data as Values));
}

/** Gives path parameters the names of the contract. */
function renamed(params: Values, names: Readonly<Record<string, string>>): Values {
  return Object.fromEntries(Object.entries(names).map(([name, routed]) => [name, params[routed]]));
}

function headersOf(headers: FastifyRequest['headers'], parameters: readonly Parameter[]): Values {
  const values = Object.create(null) as Values;
  for (const { name } of parameters) {
    const key = name.toLowerCase();
    if (Object.hasOwn(headers, key)) values[name] = headers[key];
  }
  return values;
}
