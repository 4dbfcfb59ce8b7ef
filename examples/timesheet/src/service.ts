// Defines the timesheet, which contract-server runs.
import { idempotencyErrors, type Opened, type Service } from 'contract-server';
import { collections } from './documents.js';
import { createHandlers, errors } from './operations.js';
import type { operations, operationSecurity, requiredScope, securitySchemes } from './types.gen.js';

/** The compiler reports a scope that the contract adds or removes. */
const scopes: Readonly<Record<requiredScope, true>> = { 'time:read': true, 'time:write': true };

export const service: Service = {
  name: 'timesheet',
  program: new URL('./main.js', import.meta.url),
  command: new URL('./cli.js', import.meta.url),
  contract: new URL('../openapi.yaml', import.meta.url),
  open: (context): Opened<operations, operationSecurity, securitySchemes> => ({
    handlers: createHandlers(context),
  }),
  collections: Object.values(collections),
  migrations: new URL('../migrations/', import.meta.url),
  errors: { ...errors, ...idempotencyErrors },
  scopes: Object.keys(scopes),
  tokenPrefix: 'tsh_',
  realm: 'timesheet',
  metricPrefix: 'timesheet_',
  databaseUrl: 'file:./data/timesheet.db',
  example: {
    purpose: 'Create a project',
    method: 'PUT',
    path: '/projects/garden',
    body: '{"name": "The garden", "rate": 6000}',
  },
};
