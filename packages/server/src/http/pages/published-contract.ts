// Publishes the contract without authentication.
import type { FastifyInstance } from 'fastify';
import type { Contract } from '../../contract/contract.js';
import { serveFile } from './public-file.js';

/** Serves the contract unchanged at /openapi.yaml, and as JSON at /openapi.json, unless it has these paths itself. */
export function publishContract(app: FastifyInstance, { bytes, document }: Contract): void {
  const publish = (url: string, mediaType: string, content: () => Buffer) => {
    // The next release may have another contract: caches ask each time.
    serveFile(app, { url, mediaType, cacheControl: 'no-cache', content });
  };
  // RFC 9512 registers YAML's media type.
  publish('/openapi.yaml', 'application/yaml', () => bytes);
  publish('/openapi.json', 'application/json', () => Buffer.from(JSON.stringify(document, undefined, 2)));
}
