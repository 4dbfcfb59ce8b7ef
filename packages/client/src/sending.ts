// Sends each call's requests with a token, a request id and a timeout, and interprets the responses.
import createFetchClient from 'openapi-fetch';
import { exactJson } from './json-text.gen.js';
import type { components, operations } from './types.gen.js';
import { readBody, type ParsedJson } from './response-body.js';
import { Fault, isUnsent, type Answer, type ErrorKind } from './errors.js';
import { checkLimits, Limits } from './limits.js';
import { routes, version } from './operations.gen.js';
import { systemClock, withRetries, type Clock, type Outcome } from './retries.js';

/** The options that a client and a call have in common. */
interface SharedOptions {
  /**
   * Headers to send with every request, such as `traceparent`. They do not replace the token, the request id and the
   * condition of a list.
   */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Called after every attempt. If it throws, so does the call. */
  onAttempt?: ((attempt: Attempt) => void) | undefined;
}

/** The options of a client that concern all operations. */
export interface SenderOptions extends SharedOptions {
  /** The URL of the service, with an optional path and trailing slash. In a browser it may be relative. */
  baseUrl: string;
  /** The access token, or a function that returns it; called before every attempt, so that it can renew the token. */
  token: string | (() => string | Promise<string>);
  /** Maximum number of retries after a lost connection, or the status 429, 500, 502, 503 or 504; 3 by default. */
  retries?: number | undefined;
  /** Maximum wait before a retry, in ms; 60,000 by default. A longer `Retry-After` ends the call. */
  maxWait?: number | undefined;
  /**
   * Maximum time for an attempt, from the call of the token function to the end of the response, in ms; 30,000 by
   * default, 0 or Infinity for no limit. For streamPlants, it limits the wait for the list to begin, then each wait for
   * a complete plant or the end of the list.
   */
  timeout?: number | undefined;
  /** The runtime's fetch by default. */
  fetch?: ((request: Request) => Promise<Response>) | undefined;
  /** The system clock by default. */
  clock?: Clock | undefined;
}

/** The options of every call. Headers are added to those of the client; both `onAttempt` are called, the client's first. */
export interface CallOptions extends SharedOptions {
  /** Ends the call, which rejects with the signal's reason. A write may still have taken effect. */
  signal?: AbortSignal | undefined;
  /** Replaces the client's `timeout` in this call. */
  timeout?: number | undefined;
  /** Replaces the client's `retries` in this call. */
  retries?: number | undefined;
  /**
   * The id of the call in the service's logs, random by default: 1 to 54 letters, digits, `_`, `.` and `-`. The request
   * of each attempt has this id with the attempt's number: `ID-1`, `ID-2`.
   */
  requestId?: string | undefined;
}

/** An attempt of a call, and how it ended. */
export interface Attempt {
  readonly operation: keyof operations;
  /** Its number in the call, from 1. */
  readonly number: number;
  /** The id of its request in the service's logs. */
  readonly requestId: string;
  /** The time that it took, in ms. */
  readonly duration: number;
  /** The response, in streamPlants its beginning; undefined if no complete one arrived. */
  readonly answer: Answer | undefined;
  /** The reason why there is no complete response, or the violation of the contract in it; otherwise undefined. */
  readonly cause: unknown;
}

/** The parameters of an operation, as the contract has them. */
export type Parameters<Name extends keyof operations> = operations[Name]['parameters'];

type Json<Body> = Body extends { content: { 'application/json': infer Type } } ? Type : undefined;

/** The body of an operation's requests; undefined if they have none. */
export type RequestBody<Name extends keyof operations> = operations[Name] extends { requestBody: infer Body }
  ? Json<Body>
  : undefined;

/** The fields of a type. Those that are optional may also be undefined, which is the same as leaving them out. */
export type OrUndefined<Type> = {
  [Name in keyof Type]: Type[Name] | (undefined extends Type[Name] ? undefined : never);
};

type Success<Responses> = Responses[keyof Responses & (200 | 201 | 202 | 204)];
type Exact<Type> = Type extends ParsedJson | undefined ? Type : never;

/** The body of an operation's successful response; never if JSON.parse could not read it exactly. */
type ResponseBody<Name extends keyof operations> = Exact<Json<Success<operations[Name]['responses']>>>;

/** An attempt that succeeded. */
interface Answered<Body> {
  /** The body; undefined without one, and in a stream. */
  body: Body;
  /** The text of the body; undefined likewise. */
  text: string | undefined;
  response: Response;
  answer: Answer;
  /** The number of the attempt, from 1. */
  attempts: number;
  /** Limits the reading of the rest of the response. */
  limits: Limits;
}

/** Describes a call to its sender. All else follows from the contract. */
export interface Call<Name extends keyof operations, Value> {
  operation: Name;
  params: Parameters<Name>;
  /** The body; properties that are undefined are left out. */
  body?: OrUndefined<RequestBody<Name>>;
  /** Whether the body is not read, so that `value` can read it as a stream. */
  streams?: boolean;
  /** Returns the ETag of a response that is at hand, if a request with this authorization returned it. */
  etag?: (authorization: string) => string | undefined;
  /**
   * Returns the call's value. With status 304, which occurs only after an ETag, there is no body.
   * @throws Fault when the response is not what the contract promises; any other error means that its end is missing.
   */
  value: (answered: Answered<ResponseBody<Name>>) => Value;
  /** The error that shows a retry that an earlier attempt took effect, and the call's value in that case. */
  done?: { kind: ErrorKind; value: Value };
}

/** Performs a call. */
export type Sender = <Name extends keyof operations, Value>(
  call: Call<Name, Value>,
  options: CallOptions,
) => Promise<Value>;

/** One request of openapi-fetch. Its own types cannot follow a method and path that are not written out. */
type SendRequest = (method: string, path: string, init: object) => Promise<Received>;

interface Received {
  data?: unknown;
  error?: unknown;
  response: Response;
}

/** The runtime's own name: `Node.js/24`, `Deno/2.9`, `Bun/1.4`, or `Mozilla/5.0` in browsers. Node.js 20 has none. */
const runtime = (globalThis.navigator as Navigator | undefined)?.userAgent ?? 'Node.js/20';

/** Which client sends a request. Browsers keep their own User-Agent. */
const identity = {
  [runtime.startsWith('Mozilla/') ? 'x-client' : 'user-agent']: `plant-store-client/${version}`,
};

/**
 * Creates a sender, which throws RangeError when a limit of a call is negative or NaN.
 * @throws TypeError when the token or the URL is missing or invalid.
 */
export function createSender(options: SenderOptions): Sender {
  const { baseUrl, token, retries = 3, maxWait = 60_000, timeout = 30_000 } = options;
  const { fetch = globalThis.fetch, clock = systemClock } = options;
  if (typeof token !== 'function') checkToken(token);
  checkUrl(baseUrl);
  checkLimits({ retries, maxWait, timeout });
  // Browsers, Deno and Bun send a request again when a connection is lost; a fetch of the caller's may, too.
  const sendsAgain = fetch !== globalThis.fetch || !runtime.startsWith('Node.js/');
  // The service does not redirect, and fetch may turn a redirected POST into a GET.
  const settings = { cache: 'no-store', redirect: 'manual' } as const;
  const { request: send } = createFetchClient({ baseUrl, bodySerializer: exactJson, ...settings }) as {
    request: SendRequest;
  };

  return <Name extends keyof operations, Value>(call: Call<Name, Value>, own: CallOptions) => {
    const { operation, done } = call;
    const { signal } = own;
    const limit = { timeout: own.timeout ?? timeout, retries: own.retries ?? retries };
    checkLimits(limit);
    const callId = checkId(own.requestId ?? newId());
    const headers = { ...identity, ...options.headers, ...own.headers };

    const attempt = async (number: number): Promise<Outcome<Value>> => {
      signal?.throwIfAborted();
      const begin = performance.now();
      const requestId = `${callId}-${number}`;
      const limits = new Limits(limit.timeout, signal);
      const sending = { send, token, fetch, sendsAgain, clock, number, requestId, headers, limits };
      const outcome = await attemptOnce(call, sending);
      const duration = performance.now() - begin;
      const ended = { operation, number, duration, ...endOf(outcome) };
      options.onAttempt?.(ended);
      own.onAttempt?.(ended);
      if ('lost' in outcome) signal?.throwIfAborted();
      return outcome;
    };
    const writes = routes[operation].method !== 'GET';
    return withRetries({ attempt, writes, sendsAgain, done, signal, retries: limit.retries, maxWait }, clock);
  };
}

/** Returns what an observer learns of an outcome. */
function endOf(outcome: Outcome<unknown>): Pick<Attempt, 'requestId' | 'answer' | 'cause'> {
  if ('lost' in outcome) return { requestId: outcome.requestId, answer: undefined, cause: outcome.lost };
  const { answer } = outcome;
  return { requestId: answer.requestId, answer, cause: 'fault' in outcome ? outcome.fault : undefined };
}

/** The settings for sending an attempt. */
interface Sending {
  send: SendRequest;
  token: SenderOptions['token'];
  fetch: NonNullable<SenderOptions['fetch']>;
  clock: Clock;
  /** Whether fetch may send a request again by itself. */
  sendsAgain: boolean;
  /** From 1. */
  number: number;
  requestId: string;
  headers: Readonly<Record<string, string>>;
  limits: Limits;
}

/** The progress of an attempt. */
interface Exchange {
  /** Whether the request may have reached the service. */
  sent: boolean;
  /** Whether the request had an ETag, so that status 304 is a success. */
  isConditional: boolean;
  response?: Response;
}

/** Sends the request of a call once, and interprets the response. It rejects if the request cannot be sent at all. */
async function attemptOnce<Name extends keyof operations, Value>(
  call: Call<Name, Value>,
  sending: Sending,
): Promise<Outcome<Value>> {
  const { sendsAgain, clock, number: attempts, requestId, limits } = sending;
  const exchange: Exchange = { sent: false, isConditional: false };
  let received: Received;
  try {
    received = await limits.within(sendOnce(call, sending, exchange));
  } catch (cause) {
    const { sent, response } = exchange;
    // Other errors before sending are the caller's, such as an invalid base URL.
    if (!sent && !limits.signal.aborted) throw cause;
    const lost = sent ? cause : new Error('the token function did not return', { cause });
    // A fetch that sends again may have sent the request before, and failed when it repeated it.
    const unsent = !sendsAgain && response === undefined && isUnsent(cause);
    return { lost, requestId: requestIdOf(response) ?? requestId, sent: sent && !unsent };
  }
  const { data, error, response } = received;
  const answer = answerOf(response, error, requestId, clock);
  const outcome = readSuccess(call, data, exchange, { response, answer, attempts, limits });
  // Closes the connection of a stream; a body that has been read cannot be cancelled.
  if (!('value' in outcome)) response.body?.cancel().catch(() => undefined);
  return outcome;
}

/**
 * Sends the request of a call, with the token of the moment.
 * @param exchange - Is updated.
 */
async function sendOnce<Name extends keyof operations, Value>(
  { operation, params, body, streams = false, etag: etagFor }: Call<Name, Value>,
  { send, token, fetch, requestId, headers, limits: { signal } }: Sending,
  exchange: Exchange,
): Promise<Received> {
  const authorization = `Bearer ${checkToken(typeof token === 'function' ? await token() : token)}`;
  // The token may have come too late.
  signal.throwIfAborted();
  const etag = etagFor?.(authorization);
  exchange.isConditional = etag !== undefined;
  const condition = etag !== undefined && { 'if-none-match': etag };
  const { method, path } = routes[operation];
  return send(method, path, {
    params,
    body,
    headers: { ...headers, authorization, 'x-request-id': requestId, ...condition },
    signal,
    fetch: async (request: Request) => {
      exchange.sent = true;
      return (exchange.response = await fetch(request));
    },
    parseAs: streams ? 'stream' : 'text',
  });
}

/**
 * Returns the outcome of an attempt that got a response.
 * @param data - The text of the body, or its stream.
 */
function readSuccess<Name extends keyof operations, Value>(
  { operation, streams, value }: Call<Name, Value>,
  data: unknown,
  { isConditional }: Exchange,
  known: Omit<Answered<ResponseBody<Name>>, 'body' | 'text'>,
): Outcome<Value> {
  const { answer, response } = known;
  const shape = routes[operation].successes[answer.status];
  if (shape === undefined || (answer.status === 304 && !isConditional)) return { answer };
  try {
    if (shape !== null) checkMediaType(data, response);
    const text = shape === null || streams === true ? undefined : (data as string);
    const body = text === undefined ? undefined : readBody(text, shape!);
    return { answer, value: value({ ...known, text, body: body as ResponseBody<Name> }) };
  } catch (cause) {
    if (cause instanceof Fault) return { answer, fault: cause };
    return { lost: cause, requestId: answer.requestId, sent: true };
  }
}

function checkToken(token: unknown): string {
  if (typeof token !== 'string' || token === '') {
    throw new TypeError('token is missing: it must be the access token or a function that returns it');
  }
  if (/^bearer /i.test(token)) throw new TypeError('token must be the access token alone, without "Bearer "');
  // The runtime's own error would contain the token.
  if (!/^[\x20-\x7e]*$/.test(token.trim())) throw new TypeError('token contains an invalid character');
  return token;
}

/** @throws TypeError when a URL is missing, has a query, or a scheme that fetch would only refuse in each call, after retries. */
function checkUrl(baseUrl: unknown): void {
  if (typeof baseUrl !== 'string')
    throw new TypeError('baseUrl is missing: it must be the URL of the service');
  // The path of each operation is added at its end.
  if (/[?#]/.test(baseUrl)) throw new TypeError('baseUrl must have no query and no fragment');
  // In a browser it may be relative.
  if (URL.canParse(baseUrl) && !/^https?:/i.test(baseUrl.trim()))
    throw new TypeError(`baseUrl must begin with http:// or https://: ${baseUrl}`);
}

/** @throws Fault when there is no body, or one of another media type than JSON. */
function checkMediaType(data: unknown, { headers }: Response): void {
  if ((data ?? undefined) === undefined) throw new Fault('the body is missing');
  const type = headers.get('content-type');
  if (type?.split(';')[0]!.trim().toLowerCase() !== 'application/json')
    throw new Fault(`the media type is ${type ?? 'missing'}, and should be application/json`);
}

/** @throws RangeError for an id of a call that the service would replace. */
function checkId(id: string): string {
  if (/^[\w.-]{1,54}$/.test(id)) return id;
  throw new RangeError(`requestId must have 1 to 54 letters, digits, _, . and -: ${id}`);
}

/** Returns 64 random bits, in a form that the service accepts as a request id. */
function newId(): string {
  // Pages without TLS have no randomUUID.
  return crypto.getRandomValues(new BigUint64Array(1))[0]!.toString(16).padStart(16, '0');
}

function answerOf(response: Response, error: unknown, requestId: string, clock: Clock): Answer {
  return {
    status: response.status,
    error: isErrorBody(error) ? error : undefined,
    requestId: requestIdOf(response) ?? requestId,
    headers: response.headers,
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
