// Publishes the contract for its readers: no token needed.
import type { FastifyInstance } from 'fastify';
import type { Contract } from '../../contract/contract.js';

/** Serves the contract's very bytes at /openapi.yaml, and what they say at /openapi.json. */
export function publishContract(app: FastifyInstance, { bytes, document }: Contract): void {
  const json = Buffer.from(JSON.stringify(document, undefined, 2));
  // RFC 9512 for the media type of YAML.
  app.get('/openapi.yaml', (_request, reply) => reply.type('application/yaml').send(bytes));
  app.get('/openapi.json', (_request, reply) => reply.type('application/json; charset=utf-8').send(json));
}
