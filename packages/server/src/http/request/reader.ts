// Reads a request as its operation declares it: parameters and body, validated and converted for the handler.
import type { FastifyRequest } from 'fastify';
import { isRange, mostSpecific, parseMediaType } from '../../contract/media-type.js';
import type { Operation } from '../../contract/operations.js';
import type { Parameter, ParameterPlace } from '../../contract/parameters.js';
import { nothing, type Schema } from '../../contract/schema.js';
import { anything, type Shape } from '../../contract/shape.js';
import { ApiError, type ErrorKind } from '../../errors.js';
import { parseCookies } from '../cookies.js';
import { createConverter } from './conversion.js';
import { parseDecimal } from '../../contract/exact-json.js';
import { decimalNumber, type ValueSource } from './fault-messages.js';
import { createValidator, type Compiler } from './validation.js';

/** What a handler receives. */
export interface Input {
  readonly caller: unknown;
  readonly params: unknown;
  readonly query: unknown;
  readonly headers?: unknown;
  readonly cookies?: unknown;
  readonly body: unknown;
}

/** Reads a request. @throws ApiError that describes all faults of the first part that has any. */
export type RequestReader = (request: FastifyRequest) => Input;

type Values = Record<string, unknown>;

/** What a reader needs beside the operation. */
export interface ReaderOptions {
  compiler: Compiler;
  /** Query parameters that belong to the authentication. */
  credentials: readonly string[];
  /** Whether bodies of other media types than the operation's can have been parsed. */
  checksType: boolean;
}

/** Creates the reader of an operation's requests. */
export function createRequestReader(operation: Operation, options: ReaderOptions): RequestReader {
  const part = (place: ParameterPlace) => partReader(operation, place, options);
  const [path, query, header, cookie] = [part('path'), part('query'), part('header'), part('cookie')];
  const body = bodyReader(operation, options);
  const params = paramsOf(operation);
  return (request) => {
    // In the order in which their faults are reported.
    const input: { -readonly [Name in keyof Input]: Input[Name] } = {
      caller: request.caller,
      params: path === undefined ? request.params : path(params(request.params as Values)),
      body: body(request),
      query: query?.(request.query as Values),
    };
    if (header !== undefined) input.headers = header(pick(request.headers, operation));
    if (cookie !== undefined) input.cookies = cookie(parseCookies(request.headers.cookie ?? ''));
    return input;
  };
}

const kinds: Readonly<Record<ParameterPlace, ErrorKind>> = {
  path: 'invalidPath',
  query: 'invalidQuery',
  header: 'malformedRequest',
  cookie: 'malformedRequest',
};

/** Returns the function that reads parameters in place; undefined if there are none, except in a query. */
function partReader(
  { parameters }: Operation,
  place: ParameterPlace,
  { compiler, credentials }: ReaderOptions,
): ((values: Values) => Values) | undefined {
  const own = parameters.filter((parameter) => parameter.in === place);
  if (own.length === 0 && place !== 'query') return undefined;
  const others = place === 'query' ? credentials.map((name) => [name, { shape: anything }]) : [];
  const properties = Object.fromEntries([
    ...others,
    ...own.map(({ name, schema }) => [name, schema]),
  ]) as Record<string, Schema>;
  const check = partChecker(compiler, kinds[place], 'text', {
    type: ['object'],
    properties,
    required: own.filter(({ required }) => required).map(({ name }) => name),
    // Unknown query parameters are refused, like unknown fields of a body.
    ...(place === 'query' && { additionalProperties: nothing }),
    shape: {
      ...anything,
      types: ['object'],
      properties: Object.fromEntries(own.map(({ name, schema: { shape } }) => [name, shape])),
      additional: false,
    },
  });
  const readers = own.flatMap((parameter) => {
    const read = textReader(parameter);
    return read === undefined ? [] : [{ name: parameter.name, read }];
  });
  return (values) => {
    for (const { name, read } of readers) {
      if (Object.hasOwn(values, name)) values[name] = read(values[name]);
    }
    return check(values) as Values;
  };
}

/** Returns the function that validates and converts a part of a request. */
function partChecker(
  compiler: Compiler,
  kind: ErrorKind,
  source: ValueSource,
  schema: Schema,
): (data: unknown) => unknown {
  const validate = createValidator(compiler, schema, source);
  const convert = createConverter(schema.shape);
  return (data) => {
    const detail = validate(data);
    if (detail !== undefined) throw new ApiError(kind, { detail });
    if (convert === undefined) return data;
    const faults: string[] = [];
    const converted = convert(data, '', faults);
    if (faults.length > 0) throw new ApiError(kind, { detail: faults.slice(0, 10).join('; ') });
    return converted;
  };
}

function bodyReader(
  { body }: Operation,
  { compiler, checksType }: ReaderOptions,
): (request: FastifyRequest) => unknown {
  if (body === undefined) {
    return (request) => {
      if (request.body === undefined) return undefined;
      throw new ApiError('invalidBody', { detail: 'the operation takes no body' });
    };
  }
  const { contents, required } = body;
  const checks = contents.map(({ range, schema }) => ({
    range,
    check: partChecker(compiler, 'invalidBody', 'json', schema),
  }));
  const [only] = checks;
  const isPlain = !checksType && contents.every(({ name }) => name === 'application/json');
  return (request) => {
    const data: unknown = request.body;
    if (data === undefined) {
      if (required) throw new ApiError('missingBody');
      return undefined;
    }
    const found = isPlain
      ? only
      : mostSpecific(checks, parseMediaType(request.headers['content-type'] ?? ''));
    if (found !== undefined) return found.check(data);
    const names = contents.map(({ name, range }) => (isRange(range) ? 'application/json' : name));
    throw new ApiError('unsupportedMediaType', { detail: `here, send ${[...new Set(names)].join(' or ')}` });
  };
}

/** Returns the function that reads a parameter's text as its type, if it has that form; undefined for a text. */
function textReader({ schema: { shape }, separator }: Parameter): ((given: unknown) => unknown) | undefined {
  const isArray = shape.types?.includes('array') ?? false;
  const read = scalarReader(isArray ? (shape.items ?? anything) : shape);
  if (!isArray) return read && ((given) => (typeof given === 'string' ? read(given) : given));
  return (given) => {
    const texts =
      separator === undefined || typeof given !== 'string' ? [given].flat() : given.split(separator);
    const items = separator === ',' ? texts.map((text) => (text as string).trim()) : texts;
    return read === undefined ? items : items.map((text) => read(text as string));
  };
}

function scalarReader({ types = ['string'] }: Shape): ((text: string) => unknown) | undefined {
  if (types.includes('integer')) {
    return (text) => {
      const value = parseDecimal(text);
      if (value === undefined) return text;
      return Number.isSafeInteger(Number(value)) ? Number(value) : value;
    };
  }
  if (types.includes('number')) return (text) => (decimalNumber.test(text) ? Number(text) : text);
  if (types.includes('boolean')) return (text) => (text === 'true' ? true : text === 'false' ? false : text);
  return undefined;
}

/** Returns the function that gives path parameters the names of the contract. */
function paramsOf({ route: { names } }: Operation): (params: Values) => Values {
  const entries = Object.entries(names);
  if (entries.every(([name, routed]) => name === routed)) return (params) => params;
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
