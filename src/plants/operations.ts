// Implements the operations on plants, for requests that have passed authentication and validation.
import { ApiError, type Handlers } from 'contract-server';
import type { operations, operationSecurity } from '../types.gen.js';
import { plantErrors } from './errors.js';
import type { Creation, PlantRepository } from './repository.js';

/** The error for each outcome of a create that stored nothing; a missing outcome does not compile. */
const refusals = {
  identical: plantErrors.plantExists,
  different: plantErrors.idTaken,
} satisfies Record<Exclude<Creation, 'created'>, unknown>;

/**
 * Creates the handlers of the operations on plants.
 * @param plants - The repository that they use.
 */
export function plantOperations(plants: PlantRepository): Handlers<operations, operationSecurity> {
  return {
    async createPlant({ caller, body: { id, ...fields } }) {
      const plant = plants.document(fields);
      const outcome = await plants.create(caller.subject, id, plant);
      return outcome === 'created' ? plant : new ApiError(refusals[outcome]);
    },

    listPlants: ({ caller, query }) => Promise.resolve(plants.list(caller.subject, { limit: query.limit })),

    async deletePlant({ caller, params }) {
      const isDeleted = await plants.delete(caller.subject, params.id);
      return isDeleted ? undefined : new ApiError(plantErrors.plantNotFound);
    },
  };
}
