// Requests that can be repeated: what a service does with an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header).
import { createHash } from 'node:crypto';
import { parseExactJson } from '../contract/document/exact-json.js';
import type { Caller } from '../contract/handlers.js';
import { exactJson, JsonText } from '../contract/document/json-text.js';
import type { ServiceContext } from './definition.js';
import { Documents } from './documents.js';
import { ApiError, type ErrorEntry } from '../base/errors.js';
import type { CollectionDefinition, Transaction } from '../storage/core/interface.js';

/** The error of IdempotencyKeys, for the `errors` of a service. */
export const idempotencyErrors = {
  // Its last digits are those of no error 400, which is a 422 in operations that declare that instead.
  keyReused: { code: 42290, message: 'The Idempotency-Key is that of another request.' },
} as const satisfies Record<string, ErrorEntry>;

/** Optional properties of IdempotencyKeys. */
export interface IdempotencyOptions {
  /** For how long a response is kept, in ms; a day by default. Say it in the contract. */
  readonly keepFor?: number;
  /** The clock, in ms; `Date.now` by default. */
  readonly now?: () => number;
}

/** The record of a request. Times are in ISO 8601, so that they sort in their order. */
interface Kept {
  readonly until: string;
  /** A hash of what was asked. */
  readonly request: string;
  /** The JSON of the response. */
  readonly response: string;
}

/** When a key expires: its id begins with the time, so that those that have expired are the first ones. */
interface Expiry {
  readonly until: string;
  readonly key: string;
  /** A hash of its caller, if that is not the subject of the documents. */
  readonly caller?: string;
}

/** A key, and whose it is. */
type Owned = Omit<Expiry, 'until'>;

const keyId = ({ key, caller }: Owned) => (caller === undefined ? `key ${key}` : `caller ${caller} ${key}`);
const expiryId = ({ until, key, caller }: Expiry) => ['until', until, caller ?? [], key].flat().join(' ');
const hashOf = (text: string) => createHash('sha256').update(text).digest('base64url');

/** The number of expired keys that a request with a new key deletes: more than it adds, so that they become fewer. */
const expiredAtOnce = 2;

/**
 * The keys of requests that can be repeated, in a collection of the service. The contract declares the header, and keeps
 * its values printable and short: `pattern: '^"[ !#-\[\]-~]{1,255}"$'`, a string of RFC 9651.
 * @example
 * const keys = new IdempotencyKeys(context, { name: 'keys', id: 'text', column: 'kept', isTransient: true });
 * // In a handler, whose header is not required:
 * const key = headers['Idempotency-Key'];
 * return keys.run(caller.subject, { caller, key, request: ['createOrder', body] }, async (tx) => {
 *   const order = { id: randomUUID(), ...body };
 *   await orders.write(tx, order.id, { when: 'absent', value: order });
 *   return order;
 * });
 */
export class IdempotencyKeys {
  readonly #transaction: ServiceContext['transaction'];
  readonly #kept: Documents<string, Kept>;
  readonly #expiries: Documents<string, Expiry>;
  readonly #keepFor: number;
  readonly #now: () => number;

  /** @param definition - The collection for the keys, which the service lists in its `collections`, and has alone. */
  constructor(
    { collection, transaction }: Pick<ServiceContext, 'collection' | 'transaction'>,
    definition: CollectionDefinition<'text'> & { readonly isTransient: true },
    { keepFor = 86_400_000, now = Date.now }: IdempotencyOptions = {},
  ) {
    this.#transaction = transaction;
    const documents = collection(definition);
    this.#kept = new Documents<string, Kept>(documents, { until: true, request: true, response: true });
    this.#expiries = new Documents<string, Expiry>(documents, { until: true, key: true, caller: true });
    this.#keepFor = keepFor;
    this.#now = now;
  }

  /**
   * Runs a transaction, in which it keeps the response with the key; or returns the kept response if the caller has sent
   * the same request with the same key before. If both run at the same time, one of them waits, or runs again. What
   * `work` throws is not kept: nothing was stored, so the repeated request runs.
   * @param subject - Whose documents the transaction reads and writes: the caller's, or those that several callers share.
   * @param caller - The sender of the request. Callers cannot use each other's keys, even if they share documents.
   * @param request - A JSON value that identifies the request: the operation, and the parts of it that change its meaning.
   * @param work - Returns the response, a JSON value. It may run several times, like that of every transaction.
   * @returns The response. It is sent as it is, without a check against the contract.
   * @throws ApiError `idempotencyErrors.keyReused` (422) if the key is that of another request.
   * @throws as a transaction does. If the outcome is unknown, the same request with the same key finds it out.
   */
  async run<Result extends object>(
    subject: string,
    {
      caller,
      key,
      request,
    }: {
      readonly caller: Pick<Caller, 'subject'>;
      readonly key: string | undefined;
      readonly request: unknown;
    },
    work: (transaction: Transaction) => Promise<Result | JsonText<Result>>,
  ): Promise<JsonText<Result>> {
    const respond = async (tx: Transaction) => {
      const result = await work(tx);
      return result instanceof JsonText ? result : new JsonText<Result>(exactJson(result));
    };
    if (key === undefined) return this.#transaction(subject, respond);
    const hash = hashOf(exactJson([request]));
    const owned = caller.subject === subject ? { key } : { key, caller: hashOf(caller.subject) };
    const time = this.#now();
    const now = new Date(time).toISOString();
    const until = new Date(time + this.#keepFor).toISOString();
    await this.#deleteExpired(subject, now);
    return this.#transaction(subject, async (tx) => {
      const kept = await this.#kept.value(tx, keyId(owned));
      if (kept !== undefined && kept.until > now) {
        if (kept.request !== hash) throw new ApiError(idempotencyErrors.keyReused);
        return new JsonText<Result>(kept.response);
      }
      const response = await respond(tx);
      const value = { until, request: hash, response: response.text };
      await this.#kept.write(tx, keyId(owned), { when: 'any', value });
      const expiry = { until, ...owned };
      await this.#expiries.write(tx, expiryId(expiry), { when: 'any', value: expiry });
      return response;
    });
  }

  /** Deletes some keys that have expired, outside of the transaction: it would be in conflict with others for them. */
  async #deleteExpired(subject: string, now: string): Promise<void> {
    const range = { from: 'until ', before: `until ${now}`, limit: expiredAtOnce };
    for await (const expiry of this.#expiries.values(subject, range)) {
      const found = await this.#kept.get(subject, keyId(expiry));
      // A request may have used the key again since.
      if (found !== undefined && (parseExactJson(found.text) as Kept).until === expiry.until)
        await this.#kept.deleteUnchanged(subject, keyId(expiry), found);
      await this.#expiries.delete(subject, expiryId(expiry));
    }
  }
}
