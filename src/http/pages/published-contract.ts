// Publishes the contract without authentication.
import type { FastifyInstance } from 'fastify';
import type { Contract } from '../../contract/contract.js';

/** Serves the contract unchanged at /openapi.yaml, and as JSON at /openapi.json, unless it has these paths itself. */
export function publishContract(app: FastifyInstance, { bytes, document }: Contract): void {
  const json = Buffer.from(JSON.stringify(document, undefined, 2));
  // RFC 9512 registers YAML's media type.
  const publish = (url: string, type: string, content: Buffer) => {
    if (app.hasRoute({ method: 'GET', url })) return;
    app.route({
      method: ['GET', 'HEAD'],
      url,
      handler: (_request, reply) => reply.type(type).send(content),
    });
  };
  publish('/openapi.yaml', 'application/yaml', bytes);
  publish('/openapi.json', 'application/json', json);
}
