// Sends each call's requests with a token, a request id and a timeout, and interprets the responses.
import createFetchClient, { type Client } from 'openapi-fetch';
import type { components, paths } from '../contract/types.gen.js';
import type { Answer, ErrorKind } from './errors.js';
import { withRetries, type Clock, type Outcome } from './retries.js';

/** The options of a sender; see ClientOptions. */
interface SenderOptions {
  baseUrl: string;
  token: string | (() => string | Promise<string>);
  retries: number;
  maxWait: number;
  timeout: number;
  fetch: (request: Request) => Promise<Response>;
  clock: Clock;
}

/** The options of a call; see CallOptions. */
interface Caller {
  signal?: AbortSignal | undefined;
  onAnswer?: ((answer: Answer) => void) | undefined;
}

/** The options of openapi-fetch for one attempt. */
export interface Sending {
  headers: { authorization: string; 'x-request-id': string };
  signal: AbortSignal;
  fetch: (request: Request) => Promise<Response>;
}

/** The result of openapi-fetch. */
interface Received<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** An attempt that succeeded. */
export interface Answered<Data> {
  /** The parsed body; undefined with 204 and 304 only. */
  data: Data;
  response: Response;
  answer: Answer;
  /** The number of the attempt, from 1. */
  attempts: number;
  /** Limits the reading of the rest of the response. */
  limits: Limits;
}

/** Describes an operation to its sender. */
export interface Operation<Data, Value> {
  /** Whether the request may change something; only then does a lost response leave its outcome unknown. */
  writes: boolean;
  /** Sends the request once. */
  send: (api: Client<paths>, sending: Sending) => Promise<Received<Data>>;
  /** Whether a status means success. */
  succeeds: (status: number) => boolean;
  /** Returns the call's value. */
  value: (answered: Answered<Exclude<Data, null>>) => Value;
  /** The error that tells a retry that an earlier attempt took effect, and the call's value in that case. */
  done?: { kind: ErrorKind; value: Value };
}

/** Performs an operation. */
export type Sender = <Data, Value>(caller: Caller, operation: Operation<Data, Value>) => Promise<Value>;

/**
 * Creates a sender.
 * @throws TypeError when the token is missing, RangeError when the timeout is negative or not a number.
 */
export function createSender(options: SenderOptions): Sender {
  const { baseUrl, token, timeout, fetch, clock } = options;
  if (typeof token !== 'function') checkToken(token);
  if (!(timeout >= 0))
    throw new RangeError(`timeout must be 0 or a positive number of milliseconds: ${timeout}`);
  const api = createFetchClient<paths>({
    baseUrl,
    bodySerializer: exactJson,
    // The service does not redirect, and fetch may turn a redirected POST into a GET.
    redirect: 'manual',
  });

  return <Data, Value>(caller: Caller, operation: Operation<Data, Value>) => {
    const { signal, onAnswer } = caller;
    const { writes, send, succeeds, value, done } = operation;
    const callId = newId();

    async function attempt(attempts: number): Promise<Outcome<Value>> {
      signal?.throwIfAborted();
      const authorization = `Bearer ${checkToken(typeof token === 'function' ? await token() : token)}`;
      const requestId = `${callId}-${attempts}`;
      const limits = new Limits(timeout, signal);
      const progress: { sent: boolean; response?: Response } = { sent: false };
      let received: Received<Data>;
      try {
        const sending = {
          headers: { authorization, 'x-request-id': requestId },
          signal: limits.signal,
          fetch: async (request: Request) => {
            progress.sent = true;
            return (progress.response = await fetch(request));
          },
        };
        received = await limits.within(send(api, sending));
      } catch (cause) {
        // Errors before sending are the caller's, such as an invalid base URL.
        if (!progress.sent) throw cause;
        signal?.throwIfAborted();
        const { response } = progress;
        // A complete response that is not JSON does not come from the Plant Store.
        if (response === undefined || !(cause instanceof SyntaxError)) {
          return { lost: cause, requestId: requestIdOf(response) ?? requestId };
        }
        received = { response };
      }
      const { data, error, response } = received;
      const answer = answerOf(response, error, requestId, clock);
      onAnswer?.(answer);
      const hasBody = answer.status !== 204 && answer.status !== 304;
      if (!succeeds(answer.status) || (hasBody && (data ?? undefined) === undefined)) return { answer };
      const answered = { response, answer, attempts, limits };
      return { value: value({ ...answered, data: data as Exclude<Data, null> }) };
    }

    return withRetries({ attempt, writes, done, signal }, options, clock);
  };
}

/** Limits the duration of an attempt by a timeout and the caller's signal. */
export class Limits {
  readonly #timeout: number;
  readonly #overdue = new AbortController();
  /** Aborted by the timeout or by the caller's signal. */
  readonly signal: AbortSignal;

  /** @param timeout - In ms; 0, or more than a timer supports, means no limit. */
  constructor(timeout: number, caller: AbortSignal | undefined) {
    this.#timeout = timeout < 2 ** 31 ? timeout : 0;
    const overdue = this.#overdue.signal;
    this.signal = caller === undefined ? overdue : AbortSignal.any([caller, overdue]);
  }

  /**
   * Waits for a task within the limits, since reading a response may ignore the signal passed to fetch.
   * @throws The signal's reason if the signal is aborted first.
   */
  within<Result>(task: Promise<Result>): Promise<Result> {
    const { signal } = this;
    return new Promise((resolve, reject) => {
      const stop = () => {
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the reason is the caller's own
        reject(signal.reason);
      };
      if (signal.aborted) stop();
      signal.addEventListener('abort', stop, { once: true });
      const late = () => {
        this.#overdue.abort(new Error(`no complete response within ${this.#timeout} ms`));
      };
      const timer = this.#timeout === 0 ? undefined : setTimeout(late, this.#timeout);
      void task.then(resolve, reject).finally(() => {
        clearTimeout(timer);
        signal.removeEventListener('abort', stop);
      });
    });
  }
}

function checkToken(token: unknown): string {
  if (typeof token !== 'string' || token === '') {
    throw new TypeError('token is missing: it must be the access token or a function that returns it');
  }
  return token;
}

/** Returns 64 random bits, in a form that the service accepts as a request id. */
function newId(): string {
  // Pages without TLS have no randomUUID.
  return crypto.getRandomValues(new BigUint64Array(1))[0]!.toString(16).padStart(16, '0');
}

/** Serializes JSON with bigints as unquoted digits, which JSON.stringify cannot write. */
export function exactJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return `[${value.map(exactJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value ?? null);
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .map(([name, field]) => `${JSON.stringify(name)}:${exactJson(field)}`);
  return `{${fields.join(',')}}`;
}

function answerOf(response: Response, error: unknown, requestId: string, clock: Clock): Answer {
  return {
    status: response.status,
    error: isErrorBody(error) ? error : undefined,
    requestId: requestIdOf(response) ?? requestId,
    retryAfter: readRetryAfter(response.headers.get('retry-after'), clock.now()),
  };
}

/** The id in the service's logs; an intermediary may have replaced the one that the client sent. */
function requestIdOf(response: Response | undefined): string | undefined {
  return response?.headers.get('x-request-id') ?? undefined;
}

function isErrorBody(body: unknown): body is components['schemas']['Error'] {
  const { error, message } = (body ?? {}) as Record<string, unknown>;
  return Number.isInteger(error) && typeof message === 'string';
}

/** Parses Retry-After (RFC 9110 section 10.2.3), which is in seconds or a date. Returns ms from `now`. */
function readRetryAfter(text: string | null, now: number): number | undefined {
  const time = /^\d+$/.test(text ?? '') ? Number(text) * 1000 : Date.parse(text ?? '') - now;
  return Number.isNaN(time) ? undefined : Math.max(0, time);
}
