// What a call of the client can fail with.
import { catalogue, type ErrorKind } from '../errors.js';

export type { ErrorKind };

type Digits<Text extends string> = Text extends `${infer Number extends number}` ? Number : never;

/** The code of the contract with this name. */
export type ErrorCode<Kind extends ErrorKind = ErrorKind> = (typeof catalogue)[Kind]['code'];

/** The HTTP status of the code with this name: its first three digits. */
export type ErrorStatus<Kind extends ErrorKind = ErrorKind> =
  `${ErrorCode<Kind>}` extends `${infer A}${infer B}${infer C}${string}` ? Digits<`${A}${B}${C}`> : never;

const kinds = new Map<number, ErrorKind>(
  (Object.keys(catalogue) as ErrorKind[]).map((kind) => [catalogue[kind].code, kind]),
);

/** What is known of every failed call. */
interface FailedCall {
  /** Names the last attempt in the service's logs. */
  readonly requestId: string;
  /** How often the request was sent, retries included. */
  readonly attempts: number;
  /** Whether a create or delete may have taken effect all the same; false means that it has not. */
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

/** There was no whole answer: the connection was lost or refused, or timed out. `cause` has the details. */
export class ConnectionError extends PlantStoreError {
  override readonly name = 'ConnectionError';

  constructor(call: FailedCall, cause: unknown) {
    super(['There was no whole answer from the Plant Store', ...reasons(cause)].join(': '), call, { cause });
  }
}

/** What an error and its causes say: fetch's own says no more than that it has failed. */
function reasons(error: unknown): string[] {
  if (!(error instanceof Error)) return [];
  // Of a name with several addresses, none of which answered; Node gives it no message.
  const own = error instanceof AggregateError ? error.errors.flatMap(reasons).join(', ') : error.message;
  return [own, ...reasons(error.cause)];
}

/** What is known of every answer. */
export interface Answer {
  readonly status: number;
  /** The code and the message, when the body is an Error of the contract. */
  readonly error: { error: number; message: string } | undefined;
  /** Names the request in the service's logs. */
  readonly requestId: string;
  /** How long to wait before the call is repeated, in ms, when the answer says so. */
  readonly retryAfter: number | undefined;
}

/** The service answered with an error, or something on the way to it did. */
export class ApiError extends PlantStoreError {
  override readonly name = 'ApiError';
  /** The HTTP status. */
  readonly status: number;
  /** The code, `error` of the body; undefined when the answer is none of the Plant Store's, as a gateway's. */
  readonly code: number | undefined;
  /** The name of the code; undefined as well when the code is newer than this client: go by the status then. */
  readonly kind: ErrorKind | undefined;
  /** How long to wait before the call is repeated, in ms, when the answer says so. */
  readonly retryAfter: number | undefined;

  constructor(call: Omit<FailedCall, 'requestId'>, { status, error, requestId, retryAfter }: Answer) {
    super(error?.message ?? `The answer, of status ${status}, is none of the Plant Store's.`, {
      ...call,
      requestId,
    });
    this.status = status;
    this.code = error?.error;
    this.kind = kindOf(error?.error);
    this.retryAfter = retryAfter;
  }

  /** Whether this is the error with that name; `code` and `status` are then known to the compiler as well. */
  is<Kind extends ErrorKind>(
    kind: Kind,
  ): this is this & { kind: Kind; code: ErrorCode<Kind>; status: ErrorStatus<Kind> } {
    return this.kind === kind;
  }
}

/** The name of a code, when this client knows it. */
export function kindOf(code: number | undefined): ErrorKind | undefined {
  return code === undefined ? undefined : kinds.get(code);
}
