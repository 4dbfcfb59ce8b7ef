// CORS: which pages may use the service, what they may send, and what they may read of an answer.
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Contract } from '../../contract/contract.js';

/** How long a browser may rely on the answer to a preflight, in seconds. */
const preflightTime = 600;

/** What a page may read anyway (Fetch Standard, "CORS-safelisted response-header name"). */
const safelisted = [
  'Cache-Control',
  'Content-Language',
  'Content-Length',
  'Expires',
  'Last-Modified',
  'Pragma',
];

/**
 * Lets pages of other origins use the service, with the methods and response headers of its contract.
 * @param origins - As a browser spells them; `*` for all.
 */
export async function allowOrigins(
  app: FastifyInstance,
  { methods, responseHeaders }: Contract,
  origins: readonly string[],
): Promise<void> {
  const { default: cors } = await import('@fastify/cors');
  const settings = {
    origin: [...origins],
    methods: [...methods],
    exposedHeaders: responseHeaders.filter((name) => !safelisted.includes(name)),
    maxAge: preflightTime,
  };
  await app.register(cors, {
    delegator: (request: FastifyRequest, done) => {
      // An OPTIONS that is no preflight is a method like any other.
      const other = request.method === 'OPTIONS' && !isPreflight(request);
      done(null, other ? { origin: false } : settings);
    },
  });
}

function isPreflight({ headers }: FastifyRequest): boolean {
  return [headers.origin, headers['access-control-request-method']].every(
    (value) => value !== undefined && value !== '',
  );
}
