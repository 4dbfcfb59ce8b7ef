// The composition root: builds the service from its parts, without listening or reading the environment.
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import fastifyAuth from '@fastify/auth';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { Contract } from '../contract/contract.js';
import { loadChecked } from '../http/checked-contract.js';
import { createCallerTokens } from '../service/caller-tokens.js';
import type { Service } from '../service/definition.js';
import type { Report } from '../base/events.js';
import { defaultLimits, type Limits } from '../base/limits.js';
import { openService, type OpenedService } from '../service/opened-service.js';
import type { Storage } from '../storage/core/interface.js';
import { shedLoad } from '../http/admission/load-shedding.js';
import { MemoryBudget } from '../http/admission/memory-budget.js';
import { countRefused, createRateLimits } from '../http/admission/rate-limit.js';
import { reportUnknownProxy } from '../http/admission/unknown-proxy.js';
import { checkHeaders } from '../http/connection/host-and-expect.js';
import type { Tls } from '../http/connection/server.js';
import { prepareShutdown } from '../http/connection/shutdown.js';
import { createHttpApp, finishResponses } from '../http/app-base.js';
import { createErrorRenderer } from '../http/error-renderer.js';
import { serveDocsPage } from '../http/pages/docs-page.js';
import { publishContract } from '../http/pages/published-contract.js';
import { Compiler } from '../http/request/validation/validation.js';
import { createErrorHandler } from '../http/response/error-handler.js';
import { PageTurns } from '../http/response/page-turns.js';
import { registerRoutes } from '../http/routing/routes.js';
import { refuseUnknownRoutes } from '../http/routing/path-and-method.js';
import type { IdentityProvider } from '../http/security/jwt.js';
import { createSchemes } from '../http/security/schemes.js';
import { reportTo } from '../observability/event-log.js';
import { RequestEvents } from '../observability/request-events.js';
import { expiryOf } from './tls.js';

/** The options of buildApp. Features are off by default. */
export interface AppOptions {
  service: Service;
  storage: Storage;
  /** The number of this thread among those that serve, from 1. */
  worker?: number;
  /** Aborts when the process is to end: what the service still opens is then closed. */
  interruption?: AbortSignal | undefined;
  /** The contract to serve; the service's by default. */
  contract?: Contract;
  /** Maximum time for a verifier of the service, in ms. */
  verifyTimeout?: number;
  limits?: Partial<Limits>;
  /** An identity provider whose tokens are accepted in addition to those in the storage. */
  identityProvider?: IdentityProvider | undefined;
  /** Whether there are access tokens; by default, if the service has a store or there is an identity provider. */
  takesTokens?: boolean;
  /** The origins whose pages may use the service, in the form of a browser's Origin header; `*` allows all. */
  corsOrigins?: readonly string[];
  /** The mean event-loop delay above which requests are refused with 503, in ms; 0 disables. */
  maxEventLoopDelay?: number;
  /** The certificate and key for HTTPS; plain HTTP by default. */
  tls?: Tls | undefined;
  /** The addresses and networks of the proxies whose X-Forwarded-For is trusted. */
  trustedProxies?: readonly string[];
  /** Receives every event, besides the log. */
  observe?: Report | undefined;
  /** None by default. */
  logger?: FastifyBaseLogger | undefined;
  /** Returns the time in milliseconds since the epoch. */
  now?: () => number;
  /** Returns a monotonic time in milliseconds, for caches and time windows. */
  monotonic?: () => number;
}

/** The defaults of the options. */
const defaults = {
  worker: 1,
  verifyTimeout: 5_000,
  corsOrigins: [],
  maxEventLoopDelay: 0,
  trustedProxies: [],
  now: () => Date.now(),
  monotonic: () => performance.now(),
} satisfies Partial<AppOptions>;

/** The options with their defaults, and what is read from the contract. */
type Settings = AppOptions &
  Required<Pick<AppOptions, keyof typeof defaults>> & {
    limits: Limits;
    contract: Contract;
    compiler: Compiler;
    report: Report;
    rates: ReturnType<typeof createRateLimits>;
  };

/** Stands for Fastify's validator and serializer: a route with a schema of its own would otherwise seem to be checked. */
const refuseSchemas = (): never => {
  throw new Error('Bodies are validated by the contract only: leave out the schema of the route');
};

/**
 * Builds and opens the service, ready to listen or for injected requests. Closing it also closes what the service has
 * opened, but not the storage.
 * @throws OpenError when the service cannot be opened.
 * @throws Error when the contract and the code do not match, or the certificate is invalid; the service is closed then.
 */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { service, storage } = options;
  const limits: Limits = { ...defaultLimits, ...options.limits };
  const contract =
    options.contract ?? loadChecked(readFileSync(service.contract), service.renderError !== undefined);
  const compiler = new Compiler();
  const settings: Settings = {
    ...defaults,
    ...options,
    limits,
    contract,
    compiler,
    report: reportTo(options.logger, options.observe, options.monotonic),
    rates: createRateLimits(limits, options.monotonic ?? defaults.monotonic),
  };
  const app = createApp(settings);
  const cutOff = prepareShutdown(app);
  const opened = await openService(service, {
    collection: (definition) => storage.collection(definition),
    transaction: (subject, work) => storage.transaction(subject, work),
    tokens: createCallerTokens(storage.tokens, service, settings.now),
    log: app.log,
    worker: settings.worker,
    interruption: options.interruption,
    patience: limits.shutdownTime,
  });
  app.addHook('onClose', () => opened.close(cutOff));
  app.decorate('checkService', () => opened.check());
  try {
    await addSteps(app, settings);
    await addOperations(app, settings, opened);
    publishContract(app, contract);
    serveDocsPage(app, contract);
    await app.ready();
  } catch (error) {
    await opened.abandon();
    throw error;
  }
  return app;
}

/** Creates the server and what turns everything that is thrown into a response, without any step of a request. */
function createApp(settings: Settings): FastifyInstance {
  const { service, report, limits, tls, trustedProxies } = settings;
  const write = createErrorRenderer(settings.compiler, settings.contract.operations, {
    errors: service.errors,
    render: service.renderError,
    report,
  });
  const handleError = createErrorHandler(service.errors, write, report);
  const app: FastifyInstance = createHttpApp(
    { limits, tls, handleError, write, report },
    {
      ...(settings.logger !== undefined && { loggerInstance: settings.logger }),
      logController: new RequestEvents(report),
      trustProxy: trustedProxies.length > 0 && [...trustedProxies],
      exposeHeadRoutes: false,
      // http/request/ and http/response/ validate; loading Fastify's validator and serializer would delay the start.
      schemaController: {
        compilersFactory: { buildValidator: refuseSchemas, buildSerializer: refuseSchemas },
      },
      // The preClose hook waits until clients have read their responses, which can exceed Fastify's default timeout.
      pluginTimeout: 0,
      // The header limit already bounds paths, and the contract defines valid ids.
      routerOptions: { maxParamLength: limits.headerLimit },
    },
  );
  if (tls !== undefined) report({ type: 'certificate loaded', expires: expiryOf(tls.cert) });
  app.decorateRequest('caller', null);
  app.decorateRequest('bodyReservation', undefined);
  return app;
}

/**
 * Adds the steps that every request passes, in this order (DESIGN.md, "The path of a request"); the first one has added
 * its id (http/app-base.ts). Optional modules are imported on demand, because every import delays the start.
 */
async function addSteps(app: FastifyInstance, settings: Settings): Promise<void> {
  const { contract, corsOrigins, maxEventLoopDelay, report, rates } = settings;
  // Invalid requests count against the address too.
  app.addHook('onRequest', rates.address ? countRefused(rates.address, checkHeaders) : checkHeaders);
  // From here on, errors have the headers of CORS too. It responds to preflights here.
  if (corsOrigins.length > 0)
    await (await import('../http/routing/cors.js')).allowOrigins(app, contract, corsOrigins);
  if (rates.address !== undefined) app.addHook('onRequest', rates.address);
  reportUnknownProxy(app, report);
  refuseUnknownRoutes(app);
  if (maxEventLoopDelay > 0) shedLoad(app, maxEventLoopDelay);
  finishResponses(app);
}

/** Adds the operations with their own steps: authentication, body, validation and handler (http/routing/routes.ts). */
async function addOperations(
  app: FastifyInstance,
  settings: Settings,
  { handlers, verifiers }: OpenedService,
): Promise<void> {
  const { service, storage, contract, limits, identityProvider, report, now, monotonic } = settings;
  const { realm, tokenPrefix, scopes, databaseUrl } = service;
  const verifyForeign =
    identityProvider &&
    (await import('../http/security/jwt.js')).createJwtVerifier(identityProvider, scopes, now);
  const takesTokens = settings.takesTokens ?? (databaseUrl !== undefined || identityProvider !== undefined);
  const { schemes, faults, tokenPlace } = createSchemes(contract, {
    given: verifiers,
    tokens: storage.tokens,
    limit: settings.verifyTimeout,
    ...{ tokenPrefix, takesTokens, realm, verifyForeign, scopes, report, now, monotonic },
  });
  app.decorate('tokenPlace', tokenPlace);
  await app.register(fastifyAuth);
  await registerRoutes(app, {
    contract,
    compiler: settings.compiler,
    handlers,
    authentication: { schemes, faults, scopes },
    bodies: {
      limit: limits.bodyLimit,
      // After waiting, a body still has half of the request timeout to arrive.
      budget: new MemoryBudget(limits.memoryBudget, limits.requestTimeout / 2),
    },
    lists: {
      stallTime: limits.requestTimeout,
      budget: new MemoryBudget(2 * limits.memoryBudget, limits.requestTimeout / 2),
      turns: new PageTurns(monotonic),
    },
    ignoresBodies: service.ignoreUndeclaredBodies === true,
    countCaller: settings.rates.subject,
  });
  if (contract.warnings.length > 0 && settings.worker === 1) {
    const warnings = contract.warnings.map(({ pointer }) => pointer);
    const command = `npx --no contract-server check ${relative('', fileURLToPath(service.contract))}`;
    app.log.warn({ warnings }, `the contract has warnings: "${command}" lists them`);
  }
}
