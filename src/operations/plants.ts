// What each operation does. Everything else about a request is settled by the contract before it gets here.
import { JsonArray, type Handlers } from '../contract/handlers.js';
import type { Plant, PlantPage, PlantRepository } from '../domain/plants.js';
import { ApiError } from '../errors.js';

/**
 * The handlers of the contract's operations.
 * @param plants - Where the plants are kept.
 */
export function createHandlers(plants: PlantRepository): Handlers {
  return {
    async createPlant({ caller, body: { id, ...plant } }) {
      const outcome = await plants.create(caller.subject, id, plant);
      if (outcome === 'identical') throw new ApiError('plantExists');
      if (outcome === 'different') throw new ApiError('idTaken');
      return plant;
    },

    async listPlants({ caller, query }) {
      return Promise.resolve(new JsonArray<Plant>(pages(plants, caller.subject, query.limit)));
    },

    async deletePlant({ caller, params }) {
      if (!(await plants.delete(caller.subject, params.id))) throw new ApiError('plantNotFound');
    },
  };
}

/** Reads the subject's plants up to `limit`, a page at each call. */
function pages(plants: PlantRepository, subject: string, limit = Infinity): () => Promise<PlantPage> {
  let after: bigint | undefined;
  let left = limit;
  return async () => {
    const page = await plants.list(subject, { after, limit: left });
    after = page.next;
    left -= page.count;
    return left > 0 ? page : { ...page, next: undefined };
  };
}
