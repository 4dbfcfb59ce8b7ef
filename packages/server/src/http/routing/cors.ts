// Configures CORS from the contract: which methods pages of other origins may use, and which headers they may read.
import cors from '@fastify/cors';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Contract } from '../../contract/contract.js';

/** The time for which a browser may cache the response to a preflight, in seconds. */
const preflightTime = 600;

/**
 * Allows pages of other origins to use the service, with the methods and response headers of its contract.
 * @param origins - In the form of a browser's Origin header, for example `https://example.org`; `*` allows all.
 */
export async function allowOrigins(
  app: FastifyInstance,
  { methods, responseHeaders }: Contract,
  origins: readonly string[],
): Promise<void> {
  const settings = {
    origin: [...origins],
    methods: [...methods],
    ...(responseHeaders.length > 0 && { exposedHeaders: [...responseHeaders] }),
    maxAge: preflightTime,
  };
  await app.register(cors, {
    delegator: (request: FastifyRequest, done) => {
      // An OPTIONS request that is not a preflight is like any other unsupported method.
      const other = request.method === 'OPTIONS' && !isPreflight(request);
      done(null, other ? { origin: false } : settings);
    },
  });
}

function isPreflight({ headers }: FastifyRequest): boolean {
  return Boolean(headers.origin && headers['access-control-request-method']);
}
