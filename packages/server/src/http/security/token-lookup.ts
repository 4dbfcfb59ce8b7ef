// Looks up tokens in the repository, and others at the identity provider or a verifier of the service, so that invented
// ones delay no known caller.
import { ApiError } from '../../base/errors.js';
import { hashSecret } from '../../storage/core/access-token.js';
import type { Token, TokenRepository } from '../../storage/core/interface.js';
import { SubjectQueue } from '../../base/subject-queue.js';
import type { GrantCache } from './grant-cache.js';
import type { Found, Grant, InvalidReason } from './verifier.js';

/** The minimum pause between two lookups in advance, in ms, and the maximum number of tokens in one. */
const refreshPause = 100;
const maxRefreshed = 500;
/** How many unknown tokens of each kind are looked up concurrently, so that invented tokens cannot occupy the store. */
const maxLookups = 4;
/** How many more may wait, half of them of one network, and for how long, in ms. */
const maxWaiting = 10_000;
const maxWait = 5_000;

/** Created once, so that a flood of requests without a valid token costs little. */
const overloaded = new ApiError('overloaded');

/** Returns what a token grants, or why it is invalid. */
export type Find = (token: string) => Promise<Found | InvalidReason>;
type FindGrant = (token: string) => Promise<Grant | InvalidReason>;
/** The same for a token that came from a network, which may have to wait for its turn. */
type FindLater = (token: string, network: string) => ReturnType<FindGrant>;

/** Where tokens, and the credentials of other schemes, are looked up. */
export interface TokenSources {
  /** The name of the security scheme. */
  name: string;
  tokens: Pick<TokenRepository, 'find'>;
  /** Whether a token has the form of those in the repository. */
  isSecret: (token: string) => boolean;
  /** Returns what any other token grants, or why it is invalid. */
  verifyForeign?: Find | undefined;
  /** A monotonic time in milliseconds. */
  monotonic: () => number;
}

/**
 * Looks up tokens, and stores the results in a cache. Concurrent requests with the same token share one lookup. A
 * recognized token is looked up at once; the others wait in a queue.
 */
export class TokenLookup {
  readonly #cache: GrantCache;
  readonly #sources: TokenSources;
  /** The cache's own `fetch` measurably slows short lists. */
  readonly #inFlight = new Map<string, ReturnType<FindGrant>>();
  /** Separate queues: a slow identity provider does not delay the repository's tokens. */
  readonly #findOwnLater: FindLater;
  readonly #findForeignLater: FindLater;
  readonly #aging = new Set<string>();
  #nextRefresh = -Infinity;

  constructor(cache: GrantCache, sources: TokenSources) {
    this.#cache = cache;
    this.#sources = sources;
    const findNow: FindGrant = (token) => this.#findNow(token);
    this.#findOwnLater = createQueue(findNow, sources.monotonic);
    this.#findForeignLater = createQueue(findNow, sources.monotonic);
  }

  /**
   * Returns what a token grants, or why it is invalid.
   * @param networkOfCaller - Returns where it came from. It is called only if the token may have to wait.
   * @throws ApiError `overloaded` when too many unknown tokens wait, or this one has waited too long; StorageError or
   *   another ApiError when the lookup fails.
   */
  find(token: string, networkOfCaller: () => string): ReturnType<FindGrant> {
    let found = this.#inFlight.get(token);
    if (found === undefined) {
      found = this.#findSoon(token, networkOfCaller).finally(() => this.#inFlight.delete(token));
      this.#inFlight.set(token, found);
    }
    return found;
  }

  /**
   * Looks up a token in the cache again that is aging, in one statement with others, since a lookup for each would cost
   * as much as many short lists. Identity providers' tokens need no lookup.
   */
  refresh(token: string): void {
    const { isSecret, monotonic } = this.#sources;
    const aging = this.#aging;
    if (isSecret(token) && aging.size < maxRefreshed) aging.add(token);
    if (aging.size === 0 || monotonic() < this.#nextRefresh) return;
    const secrets = [...aging].filter((one) => this.#cache.isAging(one));
    aging.clear();
    this.#nextRefresh = Infinity;
    this.#findOwn(secrets)
      // The next request with an expired entry looks it up, and reports the failure.
      .catch(() => undefined)
      .finally(() => {
        this.#nextRefresh = monotonic() + refreshPause;
      });
  }

  #findSoon(token: string, networkOfCaller: () => string): ReturnType<FindGrant> {
    if (this.#cache.isRecognized(token)) return this.#findNow(token);
    const findLater = this.#sources.isSecret(token) ? this.#findOwnLater : this.#findForeignLater;
    return findLater(token, networkOfCaller());
  }

  async #findNow(token: string): ReturnType<FindGrant> {
    const { name: scheme, isSecret, verifyForeign, monotonic } = this.#sources;
    if (isSecret(token)) return (await this.#findOwn([token]))[0] ?? 'unknown';
    const start = monotonic();
    // An invalid one is not remembered: it may become valid once its key is published.
    const found = (await verifyForeign?.(token)) ?? 'unknown';
    const grant = typeof found === 'string' ? undefined : { ...found, scheme };
    this.#cache.found(token, hashSecret(token), grant, start);
    return grant ?? (found as InvalidReason);
  }

  async #findOwn(secrets: readonly string[]): Promise<(Grant | undefined)[]> {
    const { name, tokens, monotonic } = this.#sources;
    const start = monotonic();
    const hashes = secrets.map(hashSecret);
    const grants = (await tokens.find(hashes)).map((token) => token && grantOf(token, name));
    for (const [i, secret] of secrets.entries()) {
      this.#cache.found(secret, hashes[i]!, grants[i], start);
      if (grants[i] === undefined) this.#cache.notFound(secret);
    }
    return grants;
  }
}

function grantOf({ id: tokenId, subject, scopes, expiresAt, revokedAt }: Token, scheme: string): Grant {
  return { subject, scheme, id: subject, scopes, tokenId, expiresAt, revokedAt };
}

/**
 * Returns the function that looks up a token when its turn comes, a few at a time: networks take turns, so that the
 * invented tokens of one do not delay the others. It rejects with ApiError `overloaded` when too many wait, or one for too
 * long.
 * @param find - Looks up a token.
 * @param monotonic - Returns a monotonic time in milliseconds.
 */
function createQueue(find: FindGrant, monotonic: () => number): FindLater {
  const waiting = new SubjectQueue<{ subject: string; start: () => void }>();
  let running = 0;
  const startNext = () => {
    const next = running < maxLookups ? waiting.take() : undefined;
    if (next === undefined) return;
    running++;
    next.start();
  };
  return async (token, network) => {
    if (waiting.size >= maxWaiting || waiting.sizeOf(network) >= maxWaiting / 2) throw overloaded;
    const deadline = monotonic() + maxWait;
    await new Promise<void>((start) => {
      waiting.add({ subject: network, start });
      startNext();
    });
    try {
      if (monotonic() > deadline) throw overloaded;
      return await find(token);
    } finally {
      running--;
      startNext();
    }
  };
}
