// What the benchmarks put into our own store before its server starts.
import { issueToken } from '../../dist/http/security/access-token.js';
import { migrateStorage, openStorage } from '../../dist/storage/open.js';

/** How many plants are written at a time; more would not fit into the write queue. */
const groupSize = 10_000;

/**
 * Puts plants into an empty store, with a token for each subject.
 * @param {string} url
 * @param {Iterable<{ subject: string, plants: number }>} seed
 * @returns {Promise<Map<string, string>>} The secrets by subject.
 * @throws Error when the store is not empty: what is there already would be refused in the middle of the benchmark.
 */
export async function fillStore(url, seed) {
  await migrateStorage(url);
  const storage = await openStorage(url);
  const tokens = new Map();
  const scopes = /** @type {const} */ (['plants:read', 'plants:write']);
  try {
    for (const { subject, plants } of seed) {
      const { secret } = await issueToken(storage.tokens, { subject, scopes, now: Date.now() });
      tokens.set(subject, secret);
      for (let from = 1; from <= plants; from += groupSize) {
        const outcomes = await Promise.all(
          Array.from({ length: Math.min(groupSize, plants - from + 1) }, (_, i) =>
            storage.plants.create(subject, BigInt(-from - i), { name: 'Monstera deliciosa', tag: 'indoor' }),
          ),
        );
        if (outcomes.some((outcome) => outcome !== 'created')) {
          throw new Error('the store has plants already: give the benchmark an empty database');
        }
      }
    }
    return tokens;
  } finally {
    await storage.close();
  }
}
