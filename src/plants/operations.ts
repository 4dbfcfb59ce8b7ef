// Implements the operations on plants, for requests that have passed authentication and validation.
import type { Handlers, JsonArray } from '../contract/handlers.js';
import { ApiError, type ErrorEntry } from '../errors.js';
import { plantErrors } from './errors.js';
import type { Creation, Plant, PlantRepository } from './repository.js';

/** The error for each outcome of a create that stored nothing; a missing outcome does not compile. */
const refusals: Readonly<Record<Exclude<Creation, 'created'>, ErrorEntry>> = {
  identical: plantErrors.plantExists,
  different: plantErrors.idTaken,
};

/**
 * Creates the handlers of the operations on plants.
 * @param plants - The repository that they use.
 */
export function plantOperations(
  plants: PlantRepository,
): Pick<Handlers, 'createPlant' | 'listPlants' | 'deletePlant'> {
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
      if (!(await plants.delete(caller.subject, params.id))) throw new ApiError(plantErrors.plantNotFound);
    },
  };
}

/** Returns the subject's plants up to `limit` as an array that is read page by page. */
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
