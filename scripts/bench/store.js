// Fills the Plant Store's own store before the benchmark starts its server.
import { issueToken } from '../../packages/server/dist/storage/access-token.js';
import { plants as collection, PlantRepository } from '../../dist/plants/repository.js';
import { service as plantStore } from '../../dist/service.js';
import { migrateStorage, openStorage } from '../../packages/server/dist/storage/open.js';

/** How many plants are written concurrently; more would exceed the write queue. */
const groupSize = 10_000;

/**
 * Puts plants and one token per subject into an empty store. Other services' stores get tokens only.
 * @param {string} url
 * @param {Iterable<{ subject: string, plants: number }>} seed
 * @param {import('contract-server').Service} [service]
 * @returns {Promise<Map<string, string>>} The secrets by subject.
 * @throws Error when the store is not empty, since creates in the benchmark would then fail.
 */
export async function fillStore(url, seed, service = plantStore) {
  await migrateStorage(service, url);
  const storage = await openStorage(service, url);
  const tokens = new Map();
  const { scopes, tokenPrefix: prefix } = service;
  try {
    for (const { subject, plants } of seed) {
      const { secret } = await issueToken(storage.tokens, { prefix, subject, scopes, now: Date.now() });
      tokens.set(subject, secret);
      if (service !== plantStore) continue;
      const repository = new PlantRepository(storage.collection(collection));
      for (let from = 1; from <= plants; from += groupSize) {
        const outcomes = await Promise.all(
          Array.from({ length: Math.min(groupSize, plants - from + 1) }, (_, i) =>
            repository.create(subject, BigInt(-from - i), { name: 'Monstera deliciosa', tag: 'indoor' }),
          ),
        );
        if (outcomes.some((outcome) => outcome !== 'created')) {
          throw new Error('the store already contains plants; use an empty database');
        }
      }
    }
    return tokens;
  } finally {
    await storage.close();
  }
}
