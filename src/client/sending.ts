// Sends the requests of calls: the token, the request's id, the time that an answer may take, and what it says.
import createFetchClient, { type Client } from 'openapi-fetch';
import type { components, paths } from '../contract/types.gen.js';
import type { Answer, ErrorKind } from './errors.js';
import { withRetries, type Clock, type Outcome } from './retries.js';

/** What a sender works with; ClientOptions says what it means. */
interface SenderOptions {
  baseUrl: string;
  token: string | (() => string | Promise<string>);
  retries: number;
  maxWait: number;
  timeout: number;
  fetch: (request: Request) => Promise<Response>;
  clock: Clock;
}

/** What the caller gives with a call; CallOptions says what it means. */
interface Caller {
  signal?: AbortSignal | undefined;
  onAnswer?: ((answer: Answer) => void) | undefined;
}

/** What openapi-fetch is given for one attempt. */
export interface Sending {
  headers: { authorization: string; 'x-request-id': string };
  signal: AbortSignal;
  fetch: (request: Request) => Promise<Response>;
}

/** What it gives back. */
interface Received<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** An attempt that succeeded. */
export interface Answered<Data> {
  /** What the body says; undefined when there is none, with 204 and 304 alone. */
  data: Data;
  response: Response;
  answer: Answer;
  /** The number of the attempt, from 1. */
  attempts: number;
  /** For whatever of the answer is still to be read. */
  limits: Limits;
}

/** What an operation is, for its sender. */
export interface Operation<Data, Value> {
  /** Whether the request may change something: only then is it open, without an answer, what has become of it. */
  writes: boolean;
  /** Sends the request once. */
  send: (api: Client<paths>, sending: Sending) => Promise<Received<Data>>;
  /** Whether a status is one of success. */
  succeeds: (status: number) => boolean;
  /** What the caller gets. */
  value: (answered: Answered<Exclude<Data, null>>) => Value;
  /** The error by which a repeated write learns that the one before took effect, and what the caller gets then. */
  done?: { kind: ErrorKind; value: Value };
}

/** Carries out an operation for a caller. */
export type Sender = <Data, Value>(caller: Caller, operation: Operation<Data, Value>) => Promise<Value>;

/**
 * Makes a sender.
 * @throws TypeError when the token is missing, RangeError when the timeout is not a time.
 */
export function createSender(options: SenderOptions): Sender {
  const { baseUrl, token, timeout, fetch, clock } = options;
  if (typeof token !== 'function') checkToken(token);
  if (!(timeout >= 0)) throw new RangeError(`timeout must be a number of ms, from 0 on: ${timeout}`);
  const api = createFetchClient<paths>({
    baseUrl,
    bodySerializer: exactJson,
    // The service does not redirect, and a redirected POST could come back as the answer to a GET.
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
        // What goes wrong before is the caller's, as a base URL that is none.
        if (!progress.sent) throw cause;
        signal?.throwIfAborted();
        const { response } = progress;
        // A whole answer that is no JSON is somebody else's.
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

/** How long something may take, and its end by the caller. */
export class Limits {
  readonly #timeout: number;
  readonly #overdue = new AbortController();
  /** Aborted when either ends it. */
  readonly signal: AbortSignal;

  /** @param timeout - In ms; 0, and what a timer cannot count, is for ever. */
  constructor(timeout: number, caller: AbortSignal | undefined) {
    this.#timeout = timeout < 2 ** 31 ? timeout : 0;
    const overdue = this.#overdue.signal;
    this.signal = caller === undefined ? overdue : AbortSignal.any([caller, overdue]);
  }

  /**
   * Waits for something, but not for longer than is allowed: a fetch need not heed its signal once it has answered.
   * @throws the signal's reason when it ends first.
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
        this.#overdue.abort(new Error(`there was no whole answer within ${this.#timeout} ms`));
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
    throw new TypeError('token must be the access token, or a function that gives it; it is missing');
  }
  return token;
}

/** 64 random bits, in the form that the service takes over as a request id. */
function newId(): string {
  // Not randomUUID, which pages without TLS lack.
  return crypto.getRandomValues(new BigUint64Array(1))[0]!.toString(16).padStart(16, '0');
}

/** JSON in which a bigint stands as bare digits, at any depth: JSON.stringify has no way to write one. */
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

/** The id under which the service has logged the request: ours, unless something on the way has changed it. */
function requestIdOf(response: Response | undefined): string | undefined {
  return response?.headers.get('x-request-id') ?? undefined;
}

function isErrorBody(body: unknown): body is components['schemas']['Error'] {
  const { error, message } = (body ?? {}) as Record<string, unknown>;
  return Number.isInteger(error) && typeof message === 'string';
}

/** RFC 9110 section 10.2.3: a number of seconds, or a date. In ms from `now`. */
function readRetryAfter(text: string | null, now: number): number | undefined {
  const time = /^\d+$/.test(text ?? '') ? Number(text) * 1000 : Date.parse(text ?? '') - now;
  return Number.isNaN(time) ? undefined : Math.max(0, time);
}
