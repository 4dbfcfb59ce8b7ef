// The composition root: puts the service together from what it is given. It never listens and never reads the environment.
import fastifyAuth from '@fastify/auth';
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import { loadContract, type Contract } from './contract/contract.js';
import type { Storage } from './domain/storage.js';
import { answerClientError } from './http/connection/client-errors.js';
import { checkHeaders } from './http/connection/host-and-expect.js';
import { startInOrder } from './http/connection/request-order.js';
import { createServer, type ServerLimits, type Tls } from './http/connection/server.js';
import { trackUnusedConnections } from './http/connection/shutdown.js';
import { settleUnreadBody } from './http/connection/unread-body.js';
import { serveDocsPage } from './http/pages/docs-page.js';
import { publishContract } from './http/pages/published-contract.js';
import { refuseUnderPressure, registerPlugins, type PluginOptions } from './http/plugins.js';
import { BodyBudget } from './http/request/body-budget.js';
import { answerError, tellRequestId } from './http/response/error-answer.js';
import { registerRoutes } from './http/routing/routes.js';
import { refuseUnknownRoutes, routeMalformedTarget } from './http/routing/unknown-routes.js';
import { createBearerVerifier } from './http/security/bearer.js';
import type { IdentityProvider } from './http/security/jwt.js';
import { createRateLimits, type RateLimits } from './http/security/rate-limit.js';
import type { Metrics } from './observability/metrics.js';
import { requestId, RequestLog } from './observability/request-log.js';
import { createHandlers } from './operations/plants.js';

/** The bounds of what clients may send, how long they may take, and how often they may come. Lengths in bytes. */
export interface Limits extends ServerLimits {
  /** A request's body. */
  bodyLimit: number;
  /** All large bodies that are worked on at a time. */
  bodyBudget: number;
  rates: RateLimits;
}

/** The bounds that hold unless others are configured. */
export const defaultLimits: Limits = {
  bodyLimit: 1024 * 1024,
  bodyBudget: 8 * 1024 * 1024,
  headerLimit: 16 * 1024,
  requestTimeout: 30_000,
  keepAliveTimeout: 72_000,
  stallTimeout: 30_000,
  maxConnections: 10_000,
  rates: { perSubject: 0, perAddress: 0, window: 60_000 },
};

/** What the service is made of. */
export interface AppOptions {
  storage: Storage;
  contract?: Contract;
  limits?: Partial<Limits>;
  /** Whose tokens are good beside those of the storage. */
  identityProvider?: IdentityProvider | undefined;
  /** What watches the requests. */
  metrics?: Metrics | undefined;
  plugins?: PluginOptions;
  /** Makes the service speak TLS. */
  tls?: Tls | undefined;
  /** The addresses and networks of the proxies whose X-Forwarded-For is believed. */
  trustedProxies?: readonly string[];
  /** Fastify's logger option; silent by default. */
  logger?: FastifyServerOptions['logger'];
  /** The time in milliseconds since the epoch. */
  now?: () => number;
  /** A time in milliseconds that never goes back, for how long something may be believed. */
  monotonic?: () => number;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** From now on every answer asks its client to open a new connection, which may lead elsewhere. */
    drain(): void;
    /** Whether that has begun. */
    readonly draining: boolean;
  }
}

/**
 * Builds the service, ready to listen or to be injected into. Closing it does not close the storage.
 * @throws Error when the contract and the code do not fit together.
 */
export async function buildApp({
  storage,
  contract = loadContract(),
  limits: givenLimits,
  identityProvider,
  metrics,
  plugins = {},
  tls,
  trustedProxies = [],
  logger = false,
  now = Date.now,
  monotonic = () => performance.now(),
}: AppOptions): Promise<FastifyInstance> {
  const limits = { ...defaultLimits, ...givenLimits };
  const app: FastifyInstance = Fastify({
    logger,
    logController: new RequestLog(),
    genReqId: requestId,
    bodyLimit: limits.bodyLimit,
    trustProxy: trustedProxies.length > 0 && [...trustedProxies],
    exposeHeadRoutes: false,
    // While it closes, the service still answers what it has accepted.
    return503OnClosing: false,
    // The length of a path is bounded by the header section's; what an id may look like, the contract says.
    routerOptions: {
      maxParamLength: limits.headerLimit,
      onBadUrl: (_path, request, response) => {
        routeMalformedTarget(app, request, response);
      },
    },
    clientErrorHandler: answerClientError,
    serverFactory: (listener) => createServer(listener, limits, tls),
    // The server is made above; this makes Fastify tell its address with the right scheme.
    ...(tls !== undefined && { https: {} }),
  });
  app.setErrorHandler(answerError);
  app.decorateRequest('caller', null);
  app.decorateRequest('errorCode', undefined);

  let draining = false;
  app.decorate('drain', () => {
    draining = true;
  });
  app.decorate('draining', { getter: () => draining });
  const closeUnused = trackUnusedConnections(app.server);
  app.addHook('preClose', (done) => {
    draining = true;
    closeUnused();
    done();
  });
  app.addHook('onRequest', (request, reply, done) => {
    tellRequestId(request, reply);
    done();
  });
  metrics?.observeRequests(app);
  app.addHook('onRequest', startInOrder);
  app.addHook('onRequest', checkHeaders);
  await registerPlugins(app, plugins);
  refuseUnknownRoutes(app);
  await refuseUnderPressure(app, plugins);
  const rates = await createRateLimits(app, limits.rates);
  if (rates.address !== undefined) app.addHook('onRequest', rates.address);
  app.addHook('onSend', (request, reply, payload, done) => {
    if (draining) reply.header('connection', 'close');
    settleUnreadBody(request, reply, reply.statusCode < 400 ? limits.bodyLimit : undefined);
    done(null, payload);
  });

  // Loaded only for those who use it: the start waits for every import.
  const verifyForeign =
    identityProvider && (await import('./http/security/jwt.js')).createJwtVerifier(identityProvider, now);
  await app.register(fastifyAuth);
  const bearerAuth = createBearerVerifier({ tokens: storage.tokens, verifyForeign, now, monotonic });
  await registerRoutes(app, {
    contract,
    handlers: createHandlers(storage.plants),
    verifiers: { bearerAuth: metrics?.observeVerifier(bearerAuth) ?? bearerAuth },
    // Half of its time is left to a body that had to wait.
    bodies: new BodyBudget(limits.bodyBudget, limits.bodyLimit, limits.requestTimeout / 2),
    lists: { stallTime: limits.stallTimeout },
    countCaller: rates.subject,
  });
  publishContract(app, contract);
  serveDocsPage(app);
  await app.ready();
  return app;
}
