// Contracts of tests: that of the Plant Store, whose check every response of every test passes, and others.
import { readFileSync } from 'node:fs';
import { service } from '../../../../dist/service.js';
import { loadContract, type Contract } from '../../dist/contract/contract.js';
import { responseCheck } from '../../dist/testing/response-check.js';

export type { HttpResponse } from '../../dist/testing/response-check.js';

export { responseCheck };

/** Loads a contract from its document, or from the text of one. */
export const contractOf = (document: object | string): Contract =>
  loadContract(Buffer.from(typeof document === 'string' ? document : JSON.stringify(document)));

export const contract = loadContract(readFileSync(service.contract));
export const checkResponse = responseCheck(contract, service);

/** A contract of OpenAPI 3.1 with an operation for each schema of a body: `send0` takes the first one at `/0`. */
export const contractOfBodies = (bodies: readonly object[], schemas: object = {}): Contract =>
  contractOf({
    openapi: '3.1.0',
    info: { title: 'Bodies', version: '1' },
    security: [],
    paths: Object.fromEntries(
      bodies.map((schema, i) => {
        const requestBody = { required: true, content: { 'application/json': { schema } } };
        const responses = { 204: { description: 'Taken' } };
        return [`/${i}`, { post: { operationId: `send${i}`, requestBody, responses } }];
      }),
    ),
    components: { schemas },
  });
