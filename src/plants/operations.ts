// Implements the operations on plants, for requests that have passed authentication and validation.
import { ApiError, type ErrorEntry, type Handlers } from 'contract-server';
import type { operations, operationSecurity } from '../types.gen.js';
import { plantErrors } from './errors.js';
import type { Creation, PlantRepository } from './repository.js';

/** The error for each outcome of a create that stored nothing; a missing outcome does not compile. */
const refusals: Readonly<Record<Exclude<Creation, 'created'>, ErrorEntry>> = {
  identical: plantErrors.plantExists,
  different: plantErrors.idTaken,
};

/**
 * Creates the handlers of the operations on plants.
 * @param plants - The repository that they use.
 */
export function plantOperations(plants: PlantRepository): Handlers<operations, operationSecurity> {
  return {
    async createPlant({ caller, body: { id, ...fields } }) {
      const plant = plants.document(fields);
      const outcome = await plants.create(caller.subject, id, plant);
      if (outcome !== 'created') throw new ApiError(refusals[outcome]);
      return plant;
    },

    async listPlants({ caller, query }) {
      return Promise.resolve(plants.list(caller.subject, { limit: query.limit }));
    },

    async deletePlant({ caller, params }) {
      if (!(await plants.delete(caller.subject, params.id))) throw new ApiError(plantErrors.plantNotFound);
    },
  };
}
