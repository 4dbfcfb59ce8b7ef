// Defines the errors of the client's calls.
import { errorCodes } from './operations.gen.js';

/** The name of an error of the contract. */
export type ErrorKind = keyof typeof errorCodes;

type Digits<Text extends string> = Text extends `${infer Number extends number}` ? Number : never;

/** The contract's error code with this name. */
export type ErrorCode<Kind extends ErrorKind = ErrorKind> = (typeof errorCodes)[Kind];

/** The HTTP status of the error code with this name: its first three digits. */
export type ErrorStatus<Kind extends ErrorKind = ErrorKind> =
  `${ErrorCode<Kind>}` extends `${infer A}${infer B}${infer C}${string}` ? Digits<`${A}${B}${C}`> : never;

const kinds = new Map<number, ErrorKind>(
  (Object.keys(errorCodes) as ErrorKind[]).map((kind) => [errorCodes[kind], kind]),
);

/** The properties of every failed call. */
interface FailedCall {
  /** The id of the last attempt in the service's logs. */
  readonly requestId: string;
  /** The number of attempts, including retries. */
  readonly attempts: number;
  /** Whether a create or delete may have taken effect despite the error; false means that it has not. */
  readonly mayHaveTakenEffect: boolean;
}

/** A call that failed: an ApiError or a ConnectionError. */
export abstract class PlantStoreError extends Error implements FailedCall {
  readonly requestId: string;
  readonly attempts: number;
  readonly mayHaveTakenEffect: boolean;

  constructor(message: string, call: FailedCall, options?: { cause: unknown }) {
    super(message, options);
    this.requestId = call.requestId;
    this.attempts = call.attempts;
    this.mayHaveTakenEffect = call.mayHaveTakenEffect;
  }
}

/**
 * No complete response arrived: the connection was refused or lost, or timed out. `cause` is the error that says why, on
 * Node.js with its `code`.
 */
export class ConnectionError extends PlantStoreError {
  override readonly name = 'ConnectionError';

  constructor(call: FailedCall, cause: unknown) {
    super(['The Plant Store did not return a complete response', ...reasons(cause)].join(': '), call, {
      cause: underlying(cause),
    });
  }
}

/**
 * Returns the error behind fetch's TypeError, which only says that it failed; of several for the addresses of one name,
 * the first.
 */
function underlying(error: unknown): unknown {
  if (error instanceof AggregateError && error.errors.length > 0) return underlying(error.errors[0]);
  return error instanceof TypeError && error.cause instanceof Error ? underlying(error.cause) : error;
}

/**
 * Whether fetch failed before it sent anything: the name did not resolve, or no connection was established. Only errors
 * of Node.js say so, by `syscall` (documented with its system errors), or by the `code` of a timeout of its fetch.
 */
export function isUnsent(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.length > 0 && error.errors.every(isUnsent);
  if (!(error instanceof Error)) return false;
  const { syscall, code } = error as { syscall?: unknown; code?: unknown };
  return (
    syscall === 'connect' || syscall === 'getaddrinfo' || code === connectTimeout || isUnsent(error.cause)
  );
}

const connectTimeout = 'UND_ERR_CONNECT_TIMEOUT';

/** The messages of an error and its causes; fetch's own message only says that it failed. */
function reasons(error: unknown): string[] {
  if (!(error instanceof Error)) return [];
  // If connecting fails for all addresses of a name, Node throws an AggregateError without a message.
  const own = error instanceof AggregateError ? error.errors.flatMap(reasons).join(', ') : error.message;
  return [own, ...reasons(error.cause)];
}

/** The properties of every response. */
export interface Answer {
  readonly status: number;
  /** The code and message, if the body is an Error of the contract. */
  readonly error: { error: number; message: string } | undefined;
  /** The request's id in the service's logs. */
  readonly requestId: string;
  readonly headers: Headers;
  /** The time to wait before repeating the call, in ms, from the response's Retry-After. */
  readonly retryAfter: number | undefined;
}

/** The service, or an intermediary such as a gateway, returned an error or an unexpected response. */
export class ApiError extends PlantStoreError {
  override readonly name = 'ApiError';
  /** The HTTP status. */
  readonly status: number;
  /** The error code; undefined if the body is not an Error of the contract, for example from a gateway. */
  readonly code: number | undefined;
  /** The name of the code; undefined without a code, or if this client does not know it. Then use the status. */
  readonly kind: ErrorKind | undefined;
  /** The headers of the response. */
  readonly headers: Headers;
  /** The time to wait before repeating the call, in ms, from the response's Retry-After. */
  readonly retryAfter: number | undefined;

  /** @param fault - What is wrong with a response whose status means success. */
  constructor(
    call: Omit<FailedCall, 'requestId'>,
    { status, error, requestId, headers, retryAfter }: Answer,
    fault?: string,
  ) {
    const unexpected = `Unexpected response with status ${status}, not from the Plant Store`;
    super(error?.message ?? (fault === undefined ? `${unexpected}.` : `${unexpected}: ${fault}.`), {
      ...call,
      requestId,
    });
    this.status = status;
    this.code = error?.error;
    this.kind = kindOf(error?.error);
    this.headers = headers;
    this.retryAfter = retryAfter;
  }

  /** Whether this error has the given name; also narrows the types of `code` and `status`. */
  is<Kind extends ErrorKind>(
    kind: Kind,
  ): this is this & { kind: Kind; code: ErrorCode<Kind>; status: ErrorStatus<Kind> } {
    return this.kind === kind;
  }
}

/** A response whose status means success, but which is not what the contract promises. The message says why. */
export class Fault extends Error {}

/** The name of a code, if this client knows it. */
export function kindOf(code: number | undefined): ErrorKind | undefined {
  return code === undefined ? undefined : kinds.get(code);
}
