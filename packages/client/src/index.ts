// The Plant Store's client for Node.js, Deno, Bun and browsers: exact ids, typed errors, retries without duplicates.
import { exactJson } from './json-text.gen.js';
import type { components, operations } from './types.gen.js';
import { readBody, readJson, type SameAs } from './response-body.js';
import { Fault } from './errors.js';
import { readElements } from './json-array.js';
import { checkLimits } from './limits.js';
import { routes, shapes } from './operations.gen.js';
import type { Clock } from './retries.js';
import {
  createSender,
  type Attempt,
  type CallOptions,
  type OrUndefined,
  type Parameters,
  type RequestBody,
  type Sender,
  type SenderOptions,
} from './sending.js';

export {
  ApiError,
  ConnectionError,
  PlantStoreError,
  type Answer,
  type ErrorCode,
  type ErrorKind,
  type ErrorStatus,
} from './errors.js';
export type { Attempt, CallOptions, Clock };

/** A plant as the service returns it, without its id. */
export type Plant = components['schemas']['Plant'];

/** A 64-bit signed integer. A number must be a safe integer; only a bigint is exact beyond 2^53. */
export type PlantId = bigint | number;
type ListQuery = NonNullable<Parameters<'listPlants'>['query']>;
/** A plant to create. */
export type NewPlant = OrUndefined<Omit<RequestBody<'createPlant'>, 'id'>> & { id: PlantId };

/** The options of a client. */
export interface ClientOptions extends SenderOptions {
  /**
   * Maximum number of bytes that streamPlants reads without completing a plant, white space included; 16 MiB by
   * default, 16 times the longest body that the service accepts unless its operator allows more. It is checked after
   * each chunk of the response, so a plant that exceeds it by less than two chunks may pass.
   */
  maxPlantBytes?: number | undefined;
}

/** The options of listPlants and streamPlants. */
export interface ListOptions extends CallOptions, OrUndefined<ListQuery> {}

/**
 * One method per operation of the contract. Each rejects with ApiError when the service returns an error, or anything
 * else that the contract does not promise, and with ConnectionError when no complete response arrives. All other errors
 * are the caller's own: the signal's reason, what the token function or `onAttempt` throws, and, before anything is sent,
 * a TypeError or RangeError for a URL, token, option or argument that is invalid. If one of them ends a create or delete
 * between two attempts, the first may have taken effect.
 */
export interface PlantStoreClient extends Record<keyof operations, unknown> {
  /**
   * Creates a plant, and resolves when it is durable. If an attempt is lost and a retry finds exactly this plant in the
   * store, the call succeeds.
   * @throws TypeError or RangeError, before sending, when the id is not an exact 64-bit integer.
   */
  createPlant(plant: NewPlant, options?: CallOptions): Promise<Plant>;
  /**
   * Returns the caller's plants in ascending order of id: all, or the first `limit`. The client keeps the last list
   * that had an ETag, and downloads it again only when it has changed.
   */
  listPlants(options?: ListOptions): Promise<Plant[]>;
  /**
   * Returns the same plants one by one, in constant memory, for lists of any length. The request is sent when the first
   * plant is requested; leaving the loop closes the connection. Only failures before the list begins are retried.
   * @throws ConnectionError when the list is cut off or pauses longer than `timeout`, and ApiError when a plant is
   * invalid or longer than `maxPlantBytes`, even after some plants.
   */
  streamPlants(options?: ListOptions): AsyncGenerator<Plant, void, undefined>;
  /**
   * Deletes a plant, and resolves when that is durable. If an attempt is lost and a retry finds no such plant, the call
   * succeeds.
   * @throws TypeError or RangeError, before sending, when the id is not an exact 64-bit integer.
   */
  deletePlant(id: PlantId, options?: CallOptions): Promise<void>;
}

/**
 * Creates a client. It holds no resources, so it need not be closed.
 * @throws TypeError when the token or the URL is missing or invalid, RangeError when a number is negative or NaN.
 */
export function createClient(options: ClientOptions): PlantStoreClient {
  const { maxPlantBytes = 16 * 1024 * 1024 } = options;
  checkLimits({ maxPlantBytes });
  const call = createSender(options);
  return {
    createPlant: createPlant(call),
    listPlants: listPlants(call),
    streamPlants: streamPlants(call, maxPlantBytes),
    deletePlant: deletePlant(call),
  };
}

function createPlant(call: Sender): PlantStoreClient['createPlant'] {
  return async ({ id, ...rest }, options = {}) => {
    const sent = asAnswered(rest);
    return call(
      {
        operation: 'createPlant',
        params: {},
        body: { id: exactId(id), ...rest },
        value: ({ body }) => {
          if (!isSame(body, sent)) throw new Fault('the plant is not the one that was sent');
          return body;
        },
        done: { kind: 'plantExists', value: sent },
      },
      options,
    );
  };
}

const list = routes.listPlants.successes[200]!;

function listPlants(call: Sender): PlantStoreClient['listPlants'] {
  /** The last list that had an ETag, and the request that returned it. */
  let kept: { request: string; etag: string; text: string } | undefined;
  return async (options = {}) => {
    const { query, caller } = splitOptions(options);
    let request: string;
    let known: typeof kept;
    return call(
      {
        operation: 'listPlants',
        params: { query },
        etag: (authorization) => {
          request = JSON.stringify([authorization, query]);
          known = kept?.request === request ? kept : undefined;
          return known?.etag;
        },
        value: ({ body, text, response }): Plant[] => {
          if (text === undefined) return readBody(known!.text, list) as Plant[];
          const etag = response.headers.get('etag');
          if (etag !== null) kept = { request, etag, text };
          return body;
        },
      },
      caller,
    );
  };
}

function streamPlants(call: Sender, maxBytes: number): PlantStoreClient['streamPlants'] {
  const parse = (json: string) => readJson(json, list.items!, 'an element of the body') as Plant;
  return async function* (options = {}) {
    const { query, caller } = splitOptions(options);
    yield* await call(
      {
        operation: 'listPlants',
        params: { query },
        streams: true,
        value: (answered) => readElements(answered, { signal: options.signal, maxBytes, parse }),
      },
      caller,
    );
  };
}

function deletePlant(call: Sender): PlantStoreClient['deletePlant'] {
  return async (id, options = {}) =>
    call(
      {
        operation: 'deletePlant',
        params: { path: { id: exactId(id) } },
        value: () => undefined,
        done: { kind: 'plantNotFound', value: undefined },
      },
      options,
    );
}

/** Whether a plant is the one that was sent: the service returns every field unchanged. */
function isSame(plant: Plant, sent: Plant): boolean {
  const names = Object.keys(shapes['Plant']!.properties!) as (keyof Plant)[];
  return names.every((name) => plant[name] === sent[name]);
}

/** Separates the parameters of a list from the options of its call. */
function splitOptions(options: ListOptions) {
  const { signal, headers, onAttempt, timeout, retries, requestId, ...query } = options;
  // Parameters that are undefined are left out of the URL.
  return { query: query as ListQuery, caller: { signal, headers, onAttempt, timeout, retries, requestId } };
}

/** Converts an id to a bigint. Refuses one that may have been rounded, since it could identify another plant. */
function exactId(id: PlantId): bigint {
  if (typeof id !== 'bigint' && typeof id !== 'number')
    throw new TypeError('id must be a bigint or a number');
  if (typeof id === 'number' && !Number.isSafeInteger(id)) {
    throw new RangeError(`id must be a safe integer or a bigint: ${id} may have been rounded`);
  }
  const exact = BigInt(id);
  if (BigInt.asIntN(64, exact) !== exact)
    throw new RangeError(`id must be a 64-bit signed integer: ${exact} is out of range`);
  return exact;
}

/**
 * Returns the service's response to a create. It does not compile if Plant and NewPlant differ in more than the id,
 * since the client could then not reconstruct a lost response.
 */
function asAnswered(plant: SameAs<OrUndefined<Plant>, Omit<NewPlant, 'id'>>): Plant {
  return JSON.parse(exactJson(plant)) as Plant;
}
