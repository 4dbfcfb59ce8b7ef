// Publishes the contract for its readers: no token needed.
import type { FastifyInstance } from 'fastify';
import type { Contract } from '../../contract/contract.js';

/** Serves the contract's very bytes at /openapi.yaml, and what they say at /openapi.json. */
export function publishContract(app: FastifyInstance, { bytes, document }: Contract): void {
  const json = Buffer.from(JSON.stringify(document, undefined, 2));
  // RFC 9512 for the media type of YAML.
  const publish = (url: string, type: string, content: Buffer) =>
    app.route({
      method: ['GET', 'HEAD'],
      url,
      handler: (_request, reply) => reply.type(type).send(content),
    });
  publish('/openapi.yaml', 'application/yaml', bytes);
  publish('/openapi.json', 'application/json; charset=utf-8', json);
}
