// The composition root: puts the service together from what it is given. It neither listens nor reads the environment.
import fastifyAuth from '@fastify/auth';
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import { loadContract, type Contract } from './contract/contract.js';
import type { AnyHandlers } from './contract/handlers.js';
import type { Storage } from './domain/storage.js';
import { scopes as tokenScopes } from './domain/tokens.js';
import { answerClientError } from './http/connection/client-errors.js';
import { checkHeaders } from './http/connection/host-and-expect.js';
import { startInOrder } from './http/connection/request-order.js';
import { createServer, type ServerLimits, type Tls } from './http/connection/server.js';
import { prepareShutdown } from './http/connection/shutdown.js';
import { settleUnreadBody } from './http/connection/unread-body.js';
import { MemoryBudget } from './http/memory-budget.js';
import { serveDocsPage } from './http/pages/docs-page.js';
import { publishContract } from './http/pages/published-contract.js';
import { answerError, nameRequest } from './http/response/error-answer.js';
import { addSecurityHeaders } from './http/response/security-headers.js';
import { allowOrigins } from './http/routing/cors.js';
import { registerRoutes } from './http/routing/routes.js';
import { refuseUnknownRoutes, rewriteTarget } from './http/routing/unknown-routes.js';
import { createBearerVerifier } from './http/security/bearer.js';
import type { IdentityProvider } from './http/security/jwt.js';
import { refuseUnderPressure } from './http/security/pressure.js';
import { countRefused, createRateLimits, type RateLimits } from './http/security/rate-limit.js';
import { createTurns } from './http/security/turns.js';
import type { Verifiers } from './http/security/verifier.js';
import type { Metrics } from './observability/metrics.js';
import { requestId, RequestLog } from './observability/request-log.js';
import { createHandlers } from './operations/plants.js';

/** The bounds of what clients may send, how long they may take, and how often they may come. Lengths in bytes. */
export interface Limits extends ServerLimits {
  /** A request's body. */
  bodyLimit: number;
  /** What all bodies take together, from their arrival to their answers. */
  bodyBudget: number;
  /** All lists together, as far as they have been read and not been sent. */
  listBudget: number;
  rates: RateLimits;
}

/** The bounds that hold unless others are configured. */
export const defaultLimits: Limits = {
  bodyLimit: 1024 * 1024,
  bodyBudget: 16 * 1024 * 1024,
  listBudget: 32 * 1024 * 1024,
  headerLimit: 16 * 1024,
  requestTimeout: 30_000,
  keepAliveTimeout: 72_000,
  stallTimeout: 30_000,
  maxConnections: 10_000,
  rates: { perSubject: 0, perAddress: 0, window: 60_000 },
};

/** What is off unless it is set. */
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

/** What the service is made of. */
export interface AppOptions {
  storage: Storage;
  /** What is served; by default the contract of this package, and its operations on the storage's plants. */
  contract?: Contract;
  handlers?: AnyHandlers;
  /** All scopes that a caller can have; by default those of tokens. */
  scopes?: readonly string[];
  /** Verifiers of the contract's security schemes, beside that of `bearerAuth`. */
  verifiers?: Verifiers;
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

/**
 * Builds the service, ready to listen or to be injected into. Closing it does not close the storage.
 * @throws Error when the contract and the code do not fit together.
 */
export async function buildApp({
  storage,
  contract = loadContract(),
  handlers = createHandlers(storage.plants),
  scopes = tokenScopes,
  verifiers = {},
  limits: givenLimits,
  identityProvider,
  metrics,
  plugins: { securityHeaders = false, compression = false, corsOrigins = [], maxEventLoopDelay = 0 } = {},
  tls,
  trustedProxies = [],
  logger = false,
  now = Date.now,
  monotonic = () => performance.now(),
}: AppOptions): Promise<FastifyInstance> {
  const limits = { ...defaultLimits, ...givenLimits };
  const app: FastifyInstance = Fastify({
    logger,
    logController: new RequestLog(monotonic),
    genReqId: requestId,
    rewriteUrl: rewriteTarget,
    trustProxy: trustedProxies.length > 0 && [...trustedProxies],
    exposeHeadRoutes: false,
    // While it closes, the service still answers what it has accepted.
    return503OnClosing: false,
    // The hook that waits for their last bytes may take as long as readers may; by default each hook has 10 seconds.
    pluginTimeout: 0,
    // The length of a path is bounded by the header section's; what an id may look like, the contract says.
    routerOptions: { maxParamLength: limits.headerLimit },
    clientErrorHandler: answerClientError,
    frameworkErrors: answerError,
    serverFactory: (listener) => createServer(listener, limits, tls),
    // The server is made above; this makes Fastify show its address with the right scheme.
    ...(tls !== undefined && { https: {} }),
  });
  app.setErrorHandler(answerError);
  app.decorateRequest('caller', null);
  app.decorateRequest('bodyHolder', undefined);
  app.decorateRequest('failure', undefined);

  prepareShutdown(app);

  const verifyForeign =
    identityProvider && (await import('./http/security/jwt.js')).createJwtVerifier(identityProvider, now);
  const { verify: bearerAuth, isKnown } = createBearerVerifier({
    tokens: storage.tokens,
    verifyForeign,
    now,
    monotonic,
  });

  // What a request passes, in this order. Modules that only some services use are loaded by those alone: the start
  // waits for every import.
  // It has a name, in its answer and in the log, whatever becomes of it.
  app.addHook('onRequest', nameRequest);
  // It is counted from here on.
  metrics?.observeRequests(app);
  // It waits for the earlier ones of its connection.
  app.addHook('onRequest', startInOrder);
  // It waits for those whose callers are known, unless its own is.
  const turns = createTurns(isKnown);
  app.addHook('onRequest', turns.take);
  // It is HTTP as the RFCs have it; if not, it counts all the same.
  const rates = await createRateLimits(app, limits.rates, monotonic);
  const checkHead = checkHeaders(limits.headerLimit);
  app.addHook('onRequest', rates.address ? countRefused(rates.address, checkHead) : checkHead);
  // Its answer has these headers and this coding, an error too; a preflight is answered here.
  if (securityHeaders) await addSecurityHeaders(app);
  if (compression) (await import('./http/response/compression.js')).compressAnswers(app);
  if (corsOrigins.length > 0) await allowOrigins(app, contract, corsOrigins);
  // Its address has not sent too many.
  if (rates.address !== undefined) app.addHook('onRequest', rates.address);
  // It is for something that exists.
  refuseUnknownRoutes(app);
  // There is time for it, or its caller is known and others are the cause.
  if (maxEventLoopDelay > 0) refuseUnderPressure(app, maxEventLoopDelay, turns.isAhead);
  // When its answer is about to be sent, what is left of its body is settled.
  app.addHook('onSend', (request, reply, payload, done) => {
    settleUnreadBody(request, reply, reply.statusCode < 400 ? limits.bodyLimit : undefined);
    done(null, payload);
  });
  // Its operation lets the caller in, reads and checks the request, handles it, and answers (http/routing/routes.ts).
  await app.register(fastifyAuth);
  await registerRoutes(app, {
    contract,
    handlers,
    authentication: {
      scopes,
      verifiers: { ...verifiers, bearerAuth: metrics?.observeVerifier(bearerAuth) ?? bearerAuth },
    },
    bodies: {
      limit: limits.bodyLimit,
      // Half of its time is left to a body that had to wait.
      budget: new MemoryBudget(limits.bodyBudget, limits.requestTimeout / 2),
    },
    lists: {
      stallTime: limits.stallTimeout,
      // Who stalls while another reader waits is cut off in half of the time.
      budget: new MemoryBudget(limits.listBudget, limits.stallTimeout / 2),
    },
    countCaller: rates.subject,
  });
  publishContract(app, contract);
  serveDocsPage(app);
  await app.ready();
  return app;
}
