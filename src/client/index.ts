// The Plant Store's own client, for Node and browsers: exact ids, typed errors, retries that never duplicate.
import type { components, operations } from '../contract/types.gen.js';
import type { Answer } from './errors.js';
import { readElements } from './json-array.js';
import { systemClock, type Clock } from './retries.js';
import { createSender, exactJson, type Answered } from './sending.js';

export {
  ApiError,
  ConnectionError,
  PlantStoreError,
  type Answer,
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
  /** How often a request is sent again after a lost connection, a 429 or a 503; 3 by default. */
  retries?: number;
  /** The longest wait before that, in ms; 60,000 by default. A `Retry-After` beyond it ends the call. */
  maxWait?: number;
  /**
   * How long an attempt may take to the end of its answer, in ms; 30,000 by default, 0 or Infinity for ever. Of
   * streamPlants: how long each wait for more of the list may take.
   */
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
  /** Called for every answer, also for those after which the request is sent again. */
  onAnswer?: (answer: Answer) => void;
}

/** What listPlants and streamPlants take. */
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
  /**
   * The plants that the token gives access to, in ascending order of id: all, or the first `limit`. The last list that
   * had an ETag is kept, and read anew only when it has changed.
   */
  listPlants(options?: ListOptions): Promise<Plant[]>;
  /**
   * The same plants one by one, in constant memory, for lists of any length. Nothing is sent before the first is asked
   * for; leaving the loop closes the connection. Only what fails before the list begins is sent again.
   * @throws ConnectionError when the list is cut off, whatever has come of it.
   */
  streamPlants(options?: ListOptions): AsyncGenerator<Plant, void, undefined>;
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

/** The parsed answer of an operation. */
const parsed = <Data extends ParsedJson | undefined>({ data }: { data: Data }): Data => data;
/** The same for one element of a stream. */
const parsePlant = (json: string) => parsed({ data: JSON.parse(json) as Plant });

/**
 * Makes a client. It holds nothing open, so there is nothing to close.
 * @throws TypeError when the token is missing, RangeError when the timeout is not a time.
 */
export function createClient({
  baseUrl,
  token,
  retries = 3,
  maxWait = 60_000,
  timeout = 30_000,
  fetch = globalThis.fetch,
  clock = systemClock,
}: ClientOptions): PlantStoreClient {
  const call = createSender({ baseUrl, token, retries, maxWait, timeout, fetch, clock });
  /** The last list that had an ETag, and what it was the answer to. */
  let kept: { request: string; etag: string; plants: Plant[] } | undefined;

  return {
    async createPlant({ id, ...rest }, options = {}) {
      const body = { id: exactId(id), ...rest };
      return call(options, {
        writes: true,
        send: (api, sending) => api.POST('/plants', { ...sending, body }),
        succeeds: (status) => status === 200,
        value: parsed<Plant>,
        done: { kind: 'plantExists', value: asAnswered(rest) },
      });
    },

    async listPlants({ signal, onAnswer, ...query } = {}) {
      let request: string;
      let known: typeof kept;
      return call(
        { signal, onAnswer },
        {
          writes: false,
          send: (api, sending) => {
            request = JSON.stringify([sending.headers.authorization, query]);
            known = kept?.request === request ? kept : undefined;
            const condition = known === undefined ? {} : { 'if-none-match': known.etag };
            const headers = { ...sending.headers, ...condition };
            return api.GET('/plants', { ...sending, headers, params: { query } });
          },
          succeeds: (status) => status === 200 || (status === 304 && known !== undefined),
          value: (answered: Answered<Plant[]>) => {
            if (answered.answer.status === 304) return structuredClone(known!.plants);
            const plants = parsed(answered);
            const etag = answered.response.headers.get('etag');
            if (etag !== null) kept = { request, etag, plants: structuredClone(plants) };
            return plants;
          },
        },
      );
    },

    async *streamPlants({ signal, onAnswer, ...query } = {}) {
      yield* await call(
        { signal, onAnswer },
        {
          writes: false,
          send: (api, sending) => api.GET('/plants', { ...sending, params: { query }, parseAs: 'stream' }),
          succeeds: (status) => status === 200,
          value: (answered) => readElements(answered, signal, parsePlant),
        },
      );
    },

    async deletePlant(id, options = {}) {
      const path = { id: exactId(id) };
      return call(options, {
        writes: true,
        send: (api, sending) => api.DELETE('/plants/{id}', { ...sending, params: { path } }),
        succeeds: (status) => status === 204,
        value: parsed<undefined>,
        done: { kind: 'plantNotFound', value: undefined },
      });
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
