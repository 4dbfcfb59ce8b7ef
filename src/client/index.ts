// The Plant Store's own client, for Node and browsers: exact ids, typed errors, retries that never duplicate.
import createFetchClient from 'openapi-fetch';
import type { components, operations, paths } from '../contract/types.gen.js';
import type { Answer } from './errors.js';
import { systemClock, withRetries, type Clock, type Outcome } from './retries.js';

export {
  ApiError,
  ConnectionError,
  PlantStoreError,
  type ErrorCode,
  type ErrorKind,
  type ErrorStatus,
} from './errors.js';
export type { Clock };

/** A plant as the service returns it; its id is not part of it. */
export type Plant = components['schemas']['Plant'];
/** A 64-bit signed integer. A number must be a safe integer: beyond 2^53 only a bigint is exact. */
export type PlantId = bigint | number;
/** A plant to create. */
export type NewPlant = Omit<components['schemas']['NewPlant'], 'id'> & { id: PlantId };

/** What a client works with. */
export interface ClientOptions {
  /** Where the service is; a path and a slash at its end are fine. In a browser it may be relative. */
  baseUrl: string;
  /** The access token, or what gives it: asked before every attempt, so that it can be renewed. */
  token: string | (() => string | Promise<string>);
  /** How often a request is sent again after a lost connection or a 503; 3 by default. */
  retries?: number;
  /** How long an attempt may wait for the beginning of its answer, in ms; 30,000 by default. */
  timeout?: number;
  /** The runtime's own by default. */
  fetch?: (request: Request) => Promise<Response>;
  /** Real time by default. */
  clock?: Clock;
}

/** What every call takes. */
export interface CallOptions {
  /** Ends the call: it rejects with the signal's reason. Whether a write then took effect is not known. */
  signal?: AbortSignal;
}

/** What listPlants takes. */
export interface ListOptions
  extends CallOptions, NonNullable<operations['listPlants']['parameters']['query']> {}

/**
 * A method for each operation of the contract. Each rejects with ApiError when the service answers with an error,
 * with ConnectionError when there is no whole answer, and with whatever the token function rejects with.
 */
export interface PlantStoreClient extends Record<keyof operations, unknown> {
  /**
   * Stores a plant, and resolves once that is durable. When an attempt is lost and its retry finds this very plant
   * in the store, the call has succeeded.
   * @throws TypeError or RangeError, with nothing sent, when the id is not a 64-bit integer that is known exactly.
   */
  createPlant(plant: NewPlant, options?: CallOptions): Promise<Plant>;
  /** The plants that the token gives access to, in ascending order of id: all, or the first `limit`. */
  listPlants(options?: ListOptions): Promise<Plant[]>;
  /**
   * Deletes a plant, and resolves once that is durable. When an attempt is lost and its retry finds no such plant,
   * the call has succeeded.
   * @throws TypeError or RangeError, with nothing sent, when the id is not a 64-bit integer that is known exactly.
   */
  deletePlant(id: PlantId, options?: CallOptions): Promise<void>;
}

/**
 * What JSON.parse reads exactly. An int64 in an answer, which it would round, is none of this and does not compile:
 * before the contract can have one, read answers as text (`parseAs: 'text'`), with a parser that gives bigints.
 */
type ParsedJson =
  | null
  | boolean
  | number
  | string
  | readonly ParsedJson[]
  | { readonly [name: string]: ParsedJson | undefined };

/** The type, or never unless the other is identical: mutual assignability would overlook optional fields. */
type SameAs<Other, Type> =
  (<T>(value: T) => T extends Type ? 1 : 2) extends <T>(value: T) => T extends Other ? 1 : 2 ? Type : never;

/** What openapi-fetch is given for one attempt. */
interface Sending {
  headers: { authorization: string };
  signal: AbortSignal;
  fetch: (request: Request) => Promise<Response>;
}
/** What it gives back. */
interface Received<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** Makes a client. It holds nothing open, so there is nothing to close. */
export function createClient({
  baseUrl,
  token,
  retries = 3,
  timeout = 30_000,
  fetch = globalThis.fetch,
  clock = systemClock,
}: ClientOptions): PlantStoreClient {
  const api = createFetchClient<paths>({
    baseUrl,
    bodySerializer: exactJson,
    // The service does not redirect, and a redirected POST could come back as the answer to a GET.
    redirect: 'manual',
  });

  /** Sends a request once. `status` is the one of its success. */
  async function attempt<Data extends ParsedJson | undefined>(
    status: number,
    signal: AbortSignal | undefined,
    send: (sending: Sending) => Promise<Received<Data>>,
  ): Promise<Outcome<Data | undefined>> {
    signal?.throwIfAborted();
    const authorization = `Bearer ${typeof token === 'string' ? token : await token()}`;
    const overdue = new AbortController();
    const progress: { sent: boolean; response?: Response } = { sent: false };
    try {
      const { data, error, response } = await send({
        headers: { authorization },
        signal: signal === undefined ? overdue.signal : AbortSignal.any([signal, overdue.signal]),
        fetch: async (request) => {
          progress.sent = true;
          const timer = setTimeout(() => {
            overdue.abort(new Error(`no answer began within ${timeout} ms`));
          }, timeout);
          try {
            return (progress.response = await fetch(request));
          } finally {
            clearTimeout(timer);
          }
        },
      });
      if (response.status === status) return { value: data };
      return { answer: answerOf(response, error, clock) };
    } catch (cause) {
      // What goes wrong before is the caller's, as a base URL that is none.
      if (!progress.sent) throw cause;
      signal?.throwIfAborted();
      if (progress.response !== undefined && cause instanceof SyntaxError) {
        return { answer: answerOf(progress.response, undefined, clock) };
      }
      return { lost: cause };
    }
  }

  return {
    async createPlant({ id, ...rest }, { signal } = {}) {
      const body = { id: exactId(id), ...rest };
      const created = await withRetries<Plant | undefined>(
        {
          writes: true,
          attempt: () => attempt(200, signal, (sending) => api.POST('/plants', { ...sending, body })),
          done: { kind: 'plantExists', value: asAnswered(rest) },
          signal,
        },
        retries,
        clock,
      );
      return created!;
    },
    async listPlants({ signal, ...query } = {}) {
      const plants = await withRetries<Plant[] | undefined>(
        {
          writes: false,
          attempt: () =>
            attempt(200, signal, (sending) => api.GET('/plants', { ...sending, params: { query } })),
          signal,
        },
        retries,
        clock,
      );
      return plants!;
    },
    async deletePlant(id, { signal } = {}) {
      const path = { id: exactId(id) };
      await withRetries<undefined>(
        {
          writes: true,
          attempt: () =>
            attempt(204, signal, (sending) => api.DELETE('/plants/{id}', { ...sending, params: { path } })),
          done: { kind: 'plantNotFound', value: undefined },
          signal,
        },
        retries,
        clock,
      );
    },
  };
}

/** An id as a bigint: what was rounded already is refused, or another plant would be meant. */
function exactId(id: PlantId): bigint {
  if (typeof id !== 'bigint' && typeof id !== 'number')
    throw new TypeError('id must be a bigint or a number');
  if (typeof id === 'number' && !Number.isSafeInteger(id)) {
    throw new RangeError(`id must be a safe integer, or a bigint: ${id} may have been rounded`);
  }
  const exact = BigInt(id);
  if (BigInt.asIntN(64, exact) !== exact)
    throw new RangeError(`id must be in the range of 64 bits: ${exact}`);
  return exact;
}

/**
 * A plant that was sent, as the service answers it. It does not compile when Plant and NewPlant differ in more than the
 * id: the client could not know the answer when it is lost.
 */
function asAnswered(plant: SameAs<Plant, Omit<NewPlant, 'id'>>): Plant {
  return JSON.parse(exactJson(plant)) as Plant;
}

/** JSON in which a bigint stands as bare digits, at any depth: JSON.stringify has no way to write one. */
function exactJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return `[${value.map(exactJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value ?? null);
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .map(([name, field]) => `${JSON.stringify(name)}:${exactJson(field)}`);
  return `{${fields.join(',')}}`;
}

function answerOf({ status, headers }: Response, error: unknown, clock: Clock): Answer {
  return {
    status,
    error: isErrorBody(error) ? error : undefined,
    requestId: headers.get('x-request-id') ?? undefined,
    retryAfter: readRetryAfter(headers.get('retry-after'), clock.now()),
  };
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
