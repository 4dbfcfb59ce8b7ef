// Defines the Plant Store, which contract-server runs.
import type { Opened, Service } from 'contract-server';
import { plantErrors } from './plants/errors.js';
import { plantOperations } from './plants/operations.js';
import { plants, PlantRepository } from './plants/repository.js';
import type { operations, operationSecurity, requiredScope, securitySchemes } from './types.gen.js';

/** The compiler reports a scope that the contract adds or removes. */
const scopes: Readonly<Record<requiredScope, true>> = { 'plants:read': true, 'plants:write': true };

export const service: Service = {
  name: 'plant-store',
  program: new URL('./main.js', import.meta.url),
  command: new URL('./cli.js', import.meta.url),
  contract: new URL('../openapi.yaml', import.meta.url),
  // The compiler reports an operation that no resource implements.
  open: ({ collection }): Opened<operations, operationSecurity, securitySchemes> => ({
    handlers: plantOperations(new PlantRepository(collection(plants))),
  }),
  collections: [plants],
  migrations: new URL('./migrations/', import.meta.url),
  errors: plantErrors,
  scopes: Object.keys(scopes),
  tokenPrefix: 'pst_',
  realm: 'plant-store',
  metricPrefix: 'plant_store_',
  databaseUrl: 'file:./data/plants.db',
  example: {
    purpose: 'Create a plant',
    method: 'POST',
    path: '/plants',
    body: '{"id": 1, "name": "Monstera deliciosa", "tag": "indoor"}',
  },
};
