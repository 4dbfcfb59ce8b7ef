// Remembers what tokens grant, which of them do not exist, and which were valid when they were last looked up.
import { LRUCache } from 'lru-cache';
import { hashSecret } from '../../storage/core/access-token.js';
import type { Grant } from './verifier.js';

/** How long a verified token is cached, in ms. A lookup that began before a revocation may take longer. */
const cacheTime = 3_000;
/** The age from which a token in use is looked up again in advance, in ms. */
const refreshAge = 2_000;
/** Maximum total length of cached tokens, in characters; an identity provider's tokens can be long. */
const cacheText = 8_000_000;
/** What a shorter token counts as, so that there are at most 10,000. */
const leastText = 800;
/** How many accepted tokens count as known after their grants have left the cache. Each takes about 100 bytes. */
const maxRecognized = 65_536;

/** What the cache needs to know about tokens. */
export interface GrantCacheOptions {
  /** Whether a text has the form of a token that can be valid. */
  canBeValid: (token: string) => boolean;
  /** Whether what a token grants holds now. */
  isValid: (grant: Grant) => boolean;
  /** A monotonic time in milliseconds. */
  monotonic: () => number;
}

/** A cache of grants. A token is recognized while it was valid when it was last looked up, and has not expired since. */
export class GrantCache {
  readonly #granted: LRUCache<string, Grant>;
  readonly #notFound: LRUCache<string, true>;
  /**
   * The tokens that were valid when they were last looked up, the most recently looked up ones. It holds 72 bits of each
   * token's hash: enough to give a caller precedence, which is all that depends on it.
   */
  readonly #recognized = new LRUCache<string, true>({ maxSize: maxRecognized, sizeCalculation: () => 1 });
  readonly #options: GrantCacheOptions;

  constructor(options: GrantCacheOptions) {
    const memory = {
      // `max` would allocate memory for all entries at the start.
      maxSize: cacheText,
      sizeCalculation: (_: unknown, token: string) => Math.max(token.length, leastText),
      ttl: cacheTime,
      perf: { now: options.monotonic },
      // Reading the clock costs less than the timer that would avoid it.
      ttlResolution: 0,
    };
    // An expired entry still distinguishes a known token from an invented one.
    this.#granted = new LRUCache<string, Grant>({ ...memory, noDeleteOnStaleGet: true });
    this.#notFound = new LRUCache<string, true>(memory);
    this.#options = options;
  }

  /** What a token grants, if that was looked up within the cache's time; it may have expired since. */
  get(token: string): Grant | undefined {
    return this.#granted.get(token);
  }

  /** Whether a token in the cache should be looked up again in advance. */
  isAging(token: string): boolean {
    return this.#granted.getRemainingTTL(token) <= cacheTime - refreshAge;
  }

  /** Whether a lookup did not find a token, within the cache's time. */
  isNotFound(token: string): boolean {
    return this.#notFound.has(token);
  }

  isRecognized(token: string): boolean {
    const { canBeValid, isValid } = this.#options;
    const lastGrant = this.#granted.peek(token, { allowStale: true });
    if (lastGrant !== undefined) return isValid(lastGrant);
    return (
      canBeValid(token) && !this.#notFound.has(token) && this.#recognized.has(printOf(hashSecret(token)))
    );
  }

  /**
   * Stores the result of a lookup.
   * @param start - When the lookup began. The grant may have changed since, so its time in the cache counts from then.
   */
  found(token: string, hash: Buffer, grant: Grant | undefined, start: number): void {
    if (grant !== undefined) this.#granted.set(token, grant, { start });
    else this.#granted.delete(token);
    if (grant !== undefined && this.#options.isValid(grant)) this.#recognized.set(printOf(hash), true);
    else this.#recognized.delete(printOf(hash));
  }

  /** Remembers that a token does not exist. */
  notFound(token: string): void {
    this.#notFound.set(token, true);
  }
}

function printOf(hash: Buffer): string {
  return hash.toString('base64', 0, 9);
}
