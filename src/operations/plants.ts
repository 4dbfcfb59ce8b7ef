// What each operation on plants does. Everything else about a request is settled by the contract before it gets here.
import type { Handlers, JsonArray } from '../contract/handlers.js';
import type { Creation, Plant, PlantRepository } from '../domain/plants.js';
import { ApiError, type ErrorKind } from '../errors.js';

/** What is answered to a create that did not take place: an outcome that is missing here does not compile. */
const refusals: Readonly<Record<Exclude<Creation, 'created'>, ErrorKind>> = {
  identical: 'plantExists',
  different: 'idTaken',
};

/**
 * The handlers of the contract's operations.
 * @param plants - Where the plants are kept.
 */
export function createHandlers(plants: PlantRepository): Handlers {
  return {
    async createPlant({ caller, body: { id, ...plant } }) {
      const outcome = await plants.create(caller.subject, id, plant);
      if (outcome !== 'created') throw new ApiError(refusals[outcome]);
      return plant;
    },

    async listPlants({ caller, query }) {
      return Promise.resolve(pages(plants, caller.subject, query.limit));
    },

    async deletePlant({ caller, params }) {
      if (!(await plants.delete(caller.subject, params.id))) throw new ApiError('plantNotFound');
    },
  };
}

/** The subject's plants up to `limit`, read a page at a time. */
function pages(plants: PlantRepository, subject: string, limit = Infinity): JsonArray<Plant> {
  let after: bigint | undefined;
  let left = limit;
  return {
    async nextPage() {
      const { json, count, next } = await plants.list(subject, { after, limit: left });
      after = next;
      left -= count;
      return { json, more: next !== undefined && left > 0 };
    },
  };
}
