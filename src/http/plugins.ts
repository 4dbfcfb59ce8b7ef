// What is loaded only when it is asked for: security headers, compression, CORS, the refusal under overload.
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError } from '../errors.js';

/** The plugins' settings. What is not given is off. */
export interface PluginOptions {
  /** Whether every answer carries Helmet's security headers. */
  securityHeaders?: boolean;
  /** Whether answers are compressed for those who accept it. */
  compression?: boolean;
  /** The origins whose pages may use the service, as a browser spells them; `*` for all. */
  corsOrigins?: readonly string[];
  /** The mean delay of the event loop, in ms, beyond which requests are answered 503; 0 for none. */
  maxEventLoopDelay?: number;
}

/** What a page of another origin may read of an answer beside its body. */
const exposedHeaders = [
  'ETag',
  'RateLimit-Limit',
  'RateLimit-Remaining',
  'RateLimit-Reset',
  'Retry-After',
  'WWW-Authenticate',
  'X-Request-Id',
];
/** How long a browser may rely on the answer to a preflight, in seconds. */
const preflightTime = 600;

/**
 * Registers what an answer's headers and coding depend on: to be called before the routes, and before unknown ones are
 * refused, so that those answers have them too.
 */
export async function registerPlugins(app: FastifyInstance, options: PluginOptions): Promise<void> {
  const { securityHeaders = false, compression = false, corsOrigins = [] } = options;
  if (securityHeaders) {
    const { default: helmet } = await import('@fastify/helmet');
    await app.register(helmet, {
      // The answers are data. Nothing is upgraded to HTTPS here: that is for whoever speaks TLS to decide.
      contentSecurityPolicy: {
        useDefaults: false,
        directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
      },
    });
  }
  if (compression) {
    const { compressAnswers } = await import('./response/compression.js');
    compressAnswers(app);
  }
  if (corsOrigins.length > 0) {
    const { default: cors } = await import('@fastify/cors');
    const settings = {
      origin: [...corsOrigins],
      methods: ['GET', 'HEAD', 'POST', 'DELETE'],
      exposedHeaders,
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
}

function isPreflight({ headers }: FastifyRequest): boolean {
  return [headers.origin, headers['access-control-request-method']].every(
    (value) => value !== undefined && value !== '',
  );
}

/** Registers the refusal of requests while the event loop lags behind: an onRequest hook. */
export async function refuseUnderPressure(
  app: FastifyInstance,
  { maxEventLoopDelay = 0 }: PluginOptions,
): Promise<void> {
  if (maxEventLoopDelay === 0) return;
  const { default: underPressure } = await import('@fastify/under-pressure');
  await app.register(underPressure, {
    maxEventLoopDelay,
    pressureHandler: () => Promise.reject(new ApiError('overloaded')),
  });
}
