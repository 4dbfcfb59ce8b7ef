// Defines the error codes that every service on this server has, and ApiError, the only source of Error bodies.

/**
 * An error that a service can respond with.
 * @example
 * const errors = {
 *   bookNotFound: { code: 40400, message: 'There is no book with this ISBN.' },
 * } as const satisfies Record<string, ErrorEntry>;
 */
export interface ErrorEntry {
  /** The HTTP status times 100, plus a number; it never changes its meaning. */
  readonly code: number;
  /** The meaning of the error, as a sentence that holds for every request. */
  readonly message: string;
}

/** The errors of every service. Its resources have more. openapi.yaml documents the same codes and messages. */
export const catalogue = {
  malformedRequest: {
    code: 40000,
    message: 'The request is not well-formed HTTP, or its method or version is unknown.',
  },
  malformedJson: { code: 40001, message: 'The body is not well-formed JSON in UTF-8.' },
  invalidBody: { code: 40002, message: 'The body does not match the schema.' },
  unsupportedMediaType: { code: 40003, message: "The body's media type or content coding is not supported." },
  missingBody: { code: 40004, message: 'The body is missing.' },
  bodyTooLarge: { code: 40005, message: 'The body is too large.' },
  invalidQuery: { code: 40006, message: 'A query parameter is not valid.' },
  invalidPath: { code: 40007, message: 'A path parameter is not valid.' },
  malformedTarget: { code: 40008, message: 'The request target is not a valid URL path.' },
  invalidHost: { code: 40009, message: 'The Host header is missing, repeated or not valid.' },
  invalidHeader: { code: 40012, message: 'A header or a cookie is not valid.' },
  missingToken: { code: 40100, message: 'The access token is missing.' },
  invalidToken: { code: 40101, message: 'The access token is malformed, unknown, expired or revoked.' },
  insufficientScope: { code: 40300, message: 'The access token lacks the scope that the operation needs.' },
  pathNotFound: { code: 40401, message: 'There is nothing at this path.' },
  methodNotAllowed: { code: 40500, message: 'The path does not support this method.' },
  requestTimeout: { code: 40800, message: 'The request took too long to arrive.' },
  expectationFailed: {
    code: 41700,
    message: 'The Expect header asks for something other than `100-continue`.',
  },
  tooManyRequests: { code: 42900, message: 'Too many requests; `Retry-After` says when to try again.' },
  headersTooLarge: { code: 43100, message: "The request's header section is too large." },
  internal: { code: 50000, message: 'The server failed.' },
  unavailable: { code: 50300, message: 'The service is temporarily unavailable; the request had no effect.' },
  overloaded: { code: 50301, message: 'The service is overloaded; the request had no effect.' },
  unknownOutcome: { code: 50302, message: 'The outcome is unknown: the request may have taken effect.' },
} as const satisfies Record<string, ErrorEntry>;

/** The error of an operation that is not written yet. Only an unfinished service has it, so the catalogue does not. */
export const notImplementedEntry = {
  code: 50100,
  message: 'The operation is not implemented yet.',
} as const satisfies ErrorEntry;

/** The name of an entry of the catalogue. */
export type ErrorKind = keyof typeof catalogue;

/** A fault at one place in a request. */
export interface RequestFault {
  /** The part of the request. */
  readonly in: (typeof requestParts)[number];
  /** The place in it, as a JSON Pointer (RFC 6901), such as `/items/0/id`; of a parameter `/limit`. */
  readonly path: string;
  /**
   * The keyword of the schema that it violates, such as `required`, `type` or `minLength`; `repeated` for a parameter or
   * field that may occur only once.
   */
  readonly rule: string;
  /** The value of this keyword in the contract, such as 2 for `minLength: 2`, if it says more than the keyword alone. */
  readonly expected?: unknown;
  /** A description of the fault without its place, such as `is missing`. */
  readonly message: string;
}

/** The maximum number of faults that are listed for a request. */
export const listedFaults = 100;

/** Optional properties of an ApiError. */
export interface ApiErrorOptions {
  /** Details of this error, appended to the entry's message. Callers see them, so they must not contain secrets. */
  detail?: string | undefined;
  /** Headers of the response. */
  headers?: Record<string, string>;
  /** The cause, for the log only. */
  cause?: unknown;
  /** Additional data for the service's `renderError`, which decides how much of it callers see. */
  data?: unknown;
  /** Lists the faults of the request. */
  faults?: (() => readonly RequestFault[]) | undefined;
}

type CodeOf<Kind> = Kind extends ErrorKind
  ? (typeof catalogue)[Kind]['code']
  : Kind extends ErrorEntry
    ? Kind['code']
    : never;

/** The status of a code, as far as the compiler knows it: entries that are `as const` have a code, others a number. */
type StatusOf<Code extends number> = number extends Code
  ? number
  : `${Code}` extends `${infer A}${infer B}${infer C}${string}`
    ? `${A}${B}${C}` extends `${infer Status extends number}`
      ? Status
      : number
    : number;

/**
 * An error response of the contract, with a status of 400 or above. Throw it anywhere while handling a request. A handler
 * may also return it: then it does not compile if the operation does not declare its status.
 * @typeParam Kind - The type of the entry, which tells the compiler the status.
 * @example
 * if (book === undefined) return new ApiError(errors.bookNotFound);
 * throw new ApiError('invalidQuery', { detail: '`from` must not be after `to`' });
 */
export class ApiError<Kind extends ErrorKind | ErrorEntry = ErrorKind | ErrorEntry> extends Error {
  override readonly name = 'ApiError';
  /** The name of the error in the catalogue, or the entry of a resource's own error. */
  readonly kind: Kind;
  /** The meaning of the code, which is the same for every request. */
  readonly title: string;
  /** Details that concern this request. */
  readonly detail: string | undefined;
  /** The code, which is `error` in the body. */
  readonly code: number;
  /** The HTTP status, under the name that Fastify and its plugins read. */
  readonly statusCode: StatusOf<CodeOf<Kind>>;
  /** The headers of the response, among them `Retry-After` for 503. */
  readonly headers: Record<string, string>;
  /** The `data` of the options, of any type. */
  readonly data: unknown;
  readonly #faults: (() => readonly RequestFault[]) | undefined;

  /** @param kind - The name of an error in the catalogue, or an entry of the service's own. */
  constructor(kind: Kind, options: ApiErrorOptions = {}) {
    const { code, message } = entryOf(kind);
    const text = options.detail === undefined ? message : `${message.replace(/\.$/, '')}: ${options.detail}.`;
    super(text, options.cause === undefined ? undefined : { cause: options.cause });
    const statusCode = Math.floor(code / 100);
    this.kind = kind;
    this.title = message;
    this.detail = options.detail;
    this.code = code;
    this.statusCode = statusCode as typeof this.statusCode;
    this.data = options.data;
    this.#faults = options.faults;
    // RFC 9110 section 10.2.3: Retry-After says when to try again.
    this.headers = statusCode === 503 ? { 'retry-after': '1', ...options.headers } : (options.headers ?? {});
  }

  /**
   * The faults of the request, at most 100. Empty if it violates no schema, as with malformed JSON: then only `detail`
   * describes the fault.
   */
  get faults(): readonly RequestFault[] {
    return this.#faults?.() ?? [];
  }

  /** Returns this error as another kind, by default with the same headers. */
  with(kind: ErrorKind | ErrorEntry, headers: Record<string, string> = this.headers): ApiError {
    const { detail, cause, data } = this;
    return new ApiError(kind, { headers, cause, data, detail, faults: this.#faults });
  }
}

/** The error of a request without the body that its operation requires. */
export function missingBody(): ApiError {
  const fault = { in: 'body', path: '', rule: 'required', message: 'is missing' } as const;
  return new ApiError('missingBody', { faults: () => [fault] });
}

/** The parts of a request, in the order in which their faults are reported. */
export const requestParts = ['path', 'query', 'header', 'cookie', 'body'] as const;

/** Combines the errors of a request's parts, in their order. The code is that of the first error. */
export function joinErrors(
  parts: readonly (readonly [part: RequestFault['in'], error: ApiError])[],
): ApiError {
  const [[, first], ...others] = parts as [(typeof parts)[number], ...typeof parts];
  if (others.length === 0) return first;
  const texts = others.map(([part, { kind, detail, message }]) =>
    part === 'body' && kind !== 'invalidBody'
      ? message.replace(/^T(.*?)\.?$/s, 't$1')
      : `in the ${part}: ${detail ?? message}`,
  );
  return new ApiError(first.kind, {
    detail: [first.detail ?? first.message, ...texts].join('; '),
    cause: parts.map(([, error]) => error.cause).find((cause) => cause !== undefined),
    faults: () => parts.flatMap(([, { faults }]) => faults).slice(0, listedFaults),
  });
}

/**
 * A handler returned or threw something that is not a response of its operation. The client receives a 500. The
 * message, for the log and for tests, says how to correct the handler.
 */
export class UndeclaredResponseError extends Error {
  override readonly name = 'UndeclaredResponseError';
}

function entryOf(kind: ErrorKind | ErrorEntry): ErrorEntry {
  return typeof kind === 'string' ? catalogue[kind] : kind;
}

/** Whether something is an ApiError. `instanceof` would leave the type of its entry open. */
export function isApiError(thrown: unknown): thrown is ApiError {
  return thrown instanceof ApiError;
}

/** Returns the result of a handler. @throws ApiError if that is what it returned. */
export function resultOf(returned: unknown): unknown {
  if (isApiError(returned)) throw returned;
  return returned;
}

/** Returns an error with another header. */
export function withHeader(error: ApiError, name: string, value: string): ApiError {
  return error.with(error.kind, { ...error.headers, [name]: value });
}

/** Returns an error with another status. The last two digits of its code stay the same. */
export function withStatus(error: ApiError, status: number): ApiError {
  const { code, title: message, statusCode } = error;
  return status === statusCode ? error : error.with({ code: status * 100 + (code % 100), message });
}

/**
 * The handler of an operation that is not written yet: the response is 501, which the contract need not declare.
 * @example
 * const handlers: Handlers<operations, operationSecurity> = { getBook: notImplemented };
 */
export function notImplemented(): Promise<never> {
  return Promise.reject(new ApiError(notImplementedEntry));
}

/** An error as it is sent. */
export interface RenderedError {
  /** As the contract declares it, such as `application/problem+json`. */
  readonly mediaType: string;
  /** JSON; a text if the media type is another one. */
  readonly body: object | string;
}

/** The contents of an error. `message` is the title with the detail. */
export type ErrorFacts = Readonly<
  Pick<ApiError, 'statusCode' | 'code' | 'title' | 'detail' | 'message' | 'faults' | 'data'>
>;

/** The media type and the text of an error. */
export interface WrittenError {
  readonly mediaType: string;
  readonly text: string;
}

/** Writes errors. It throws nothing. */
export type ErrorRenderer = (error: ApiError) => WrittenError;

/** Writes errors with the body of this package's contract: `error` and `message`. */
export const writeError: ErrorRenderer = ({ code: error, message }) => ({
  mediaType: 'application/json',
  text: JSON.stringify({ error, message }),
});
