// The composition root: contract-server as a Fastify plugin, without listening or reading the environment.
import { readFileSync } from 'node:fs';
import fastifyAuth from '@fastify/auth';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyServerOptions } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { loadContract, type Contract } from '../contract/contract.js';
import { createFront, finishResponses, frontOf, prepareApp, serverOptions } from '../http/app-base.js';
import { createCallerTokens } from '../service/caller-tokens.js';
import type { Service } from '../service/definition.js';
import type { Report } from '../base/events.js';
import { keepTickObject } from '../base/node/tick-object.js';
import { defaultLimits, type Limits } from '../base/limits.js';
import { within } from '../base/time-limit.js';
import { openService, type OpenedService } from '../service/opened-service.js';
import type { Storage } from '../storage/core/interface.js';
import { limitDelay } from '../http/admission/event-loop-delay.js';
import { MemoryBudget } from '../http/admission/memory-budget.js';
import { countRefused, createRateLimits } from '../http/admission/rate-limit.js';
import { checkHeaders } from '../http/connection/host-and-expect.js';
import type { Tls } from '../http/connection/server.js';
import { prepareShutdown } from '../http/connection/shutdown.js';
import { createErrorRenderer } from '../http/error-renderer.js';
import { serveDocsPage } from '../http/pages/docs-page.js';
import { publishContract } from '../http/pages/published-contract.js';
import { Compiler } from '../http/request/validation/validation.js';
import { createErrorHandler } from '../http/response/error-handler.js';
import { PageTurns } from '../http/response/page-turns.js';
import { watchRoutes } from '../http/routing/outside-routes.js';
import { registerRoutes } from '../http/routing/routes.js';
import { refuseUnknownRoutes } from '../http/routing/path-and-method.js';
import { addAuthenticate, type AuthenticationOptions } from '../http/security/authenticate.js';
import type { IdentityProvider } from '../http/security/jwt.js';
import { createSchemes } from '../http/security/schemes.js';
import { reportTo } from '../observability/event-log.js';
import { RequestEvents } from '../observability/request-events.js';
import { expiryOf } from './tls.js';

/** Options for the server of an app; more options of Fastify, except those that the server needs itself. */
export interface AppServerOptions extends Omit<
  FastifyServerOptions,
  | ('serverFactory' | 'genReqId' | 'rewriteUrl' | 'clientErrorHandler' | 'frameworkErrors')
  | ('logController' | 'bodyLimit' | 'return503OnClosing' | 'pluginTimeout' | 'forceCloseConnections')
> {
  limits?: Partial<Limits> | undefined;
  /** The certificate and key for HTTPS; plain HTTP by default. */
  tls?: Tls | undefined;
}

/** The options of the plugin. Features are off by default. */
export interface PluginOptions {
  service: Service;
  storage: Storage;
  /** The number of this thread among those that serve, from 1. */
  worker?: number;
  /** By default that of the service. */
  contract?: Contract;
  /** Maximum time for a verifier of the service, in ms. */
  verifyTimeout?: number;
  /** An identity provider whose tokens are accepted in addition to those in the storage. */
  identityProvider?: IdentityProvider | undefined;
  /** Whether there are access tokens; by default, if the service has a store or there is an identity provider. */
  takesTokens?: boolean;
  /** The origins whose pages may use the service, in the form of a browser's Origin header; `*` allows all. */
  corsOrigins?: readonly string[];
  /** The time that requests wait for the event loop, longer than which they are refused, in ms; 0 disables. */
  maxEventLoopDelay?: number;
  /** Receives every event, besides the log. */
  observe?: Report | undefined;
  /** Aborts when the process is to end: what the service still opens is then closed. */
  interruption?: AbortSignal | undefined;
  /** Returns the time in milliseconds since the epoch. */
  now?: () => number;
  /** Returns a monotonic time in milliseconds, for caches and time windows. */
  monotonic?: () => number;
}

/** The data that the steps share. */
type Parts = ReturnType<typeof createParts>;

/**
 * Returns the options with which an author makes the app: `Fastify(appOptions({ … }))`.
 * @throws Error when the app is made, if the certificate is invalid.
 */
export function appOptions({ limits, tls, ...options }: AppServerOptions = {}): FastifyServerOptions {
  const allLimits = { ...defaultLimits, ...limits };
  const front = createFront(allLimits, tls);
  const report: Report = (event) => {
    front.rejecting.report(event);
  };
  return serverOptions(front, {
    ...options,
    logController: new RequestEvents(report),
    bodyLimit: allLimits.bodyLimit,
    // The step `shutdown` closes them, when their responses have been read.
    forceCloseConnections: false,
    // A build may wait as long as it needs, for example for a database.
    pluginTimeout: 0,
    // The header limit already bounds paths, and the contract defines valid ids.
    routerOptions: { ...options.routerOptions, maxParamLength: allLimits.headerLimit },
  });
}

type Step = (app: FastifyInstance, parts: Parts) => unknown;

/**
 * The steps that every request passes, in this order (DESIGN.md, "The path of a request"), and then those of the service.
 * Each is a plugin that depends on the one before. Optional modules are imported on demand, because every import delays
 * the start.
 */
const steps: Readonly<Record<string, Step>> = {
  requestId(app, { handleError }) {
    prepareApp(app, handleError);
  },
  // Invalid requests count against the address too.
  headerCheck(app, { rates: { address } }) {
    app.addHook('onRequest', address ? countRefused(address, checkHeaders) : checkHeaders);
  },
  // From here on, errors have the headers of CORS too. It responds to preflights here.
  async cors(app, { contract, corsOrigins }) {
    if (corsOrigins.length === 0) return;
    await (await import('../http/routing/cors.js')).allowOrigins(app, contract, corsOrigins);
  },
  addressRate(app, { rates: { address } }) {
    if (address !== undefined) app.addHook('onRequest', address);
  },
  routing: refuseUnknownRoutes,
  overload(app, { maxEventLoopDelay, monotonic }) {
    if (maxEventLoopDelay > 0) limitDelay(app, maxEventLoopDelay, monotonic);
  },
  shutdown: prepareShutdown,
  responses: finishResponses,
  service: addService,
  pages(app, { contract }) {
    publishContract(app, contract);
    serveDocsPage(app, contract);
  },
};

/**
 * Serves a service on an app whose options appOptions has made: a Fastify plugin. Closing the app also closes what the
 * service has opened, but not the storage.
 * @throws OpenError when the service cannot be opened.
 * @throws Error when the contract and the code do not match.
 */
export const serveContract = fastifyPlugin<PluginOptions>(
  async (app, options) => {
    const front = frontOf(app);
    if (front === undefined)
      throw new Error('make the app with Fastify(contractServer.options()), then register contractServer');
    keepTickObject();
    const parts = createParts(app, options, { ...defaultLimits, ...front.limits });
    Object.assign(front.rejecting, { write: parts.write, report: parts.report });
    if (front.tls !== undefined) {
      const expires = expiryOf(front.tls.cert);
      parts.report({ type: 'certificate loaded', expires });
      // It serves all the same: some clients do not check the date.
      if (expires <= new Date()) app.log.warn({ reason: expires.toISOString() }, 'the certificate expired');
    }
    let dependencies: string[] = [];
    for (const [step, add] of Object.entries(steps)) {
      const name = `contract-server/${step}`;
      const plugin = async (app: FastifyInstance) => {
        await add(app, parts);
      };
      await app.register(fastifyPlugin(plugin, { name, dependencies }));
      dependencies = [name];
    }
  },
  { name: 'contract-server', fastify: '5.x' },
);

/** Reads the contract, and makes what the steps share: the options with their defaults, and what is made from them. */
function createParts(
  app: FastifyInstance,
  {
    service,
    worker = 1,
    contract = loadContract(readFileSync(service.contract), service.renderError !== undefined),
    verifyTimeout = 5_000,
    corsOrigins = [],
    maxEventLoopDelay = 0,
    observe,
    now = () => Date.now(),
    monotonic = () => performance.now(),
    ...options
  }: PluginOptions,
  limits: Limits,
) {
  const compiler = new Compiler();
  const report = reportTo(app.log, observe, monotonic);
  const { errors, renderError: render } = service;
  const write = createErrorRenderer(compiler, contract.operations, { errors, render, report });
  return {
    ...options,
    ...{ service, worker, contract, verifyTimeout, corsOrigins, maxEventLoopDelay, now, monotonic },
    ...{ limits, compiler, report, write },
    handleError: createErrorHandler(errors, write, report),
    rates: createRateLimits(limits, monotonic),
  };
}

/** Adds what the service builds itself; then opens it, and adds its operations. */
async function addService(app: FastifyInstance, parts: Parts): Promise<void> {
  const { service, storage, contract, limits, now, rates } = parts;
  app.decorateRequest('caller', null);
  app.decorateRequest('bodyReservation', undefined);
  await app.register(fastifyAuth);
  addAuthenticate(app, () => authentication, rates.subject);
  watchRoutes(app, contract.operations);
  // As a plugin, so that what it registers without waiting is there before the operations.
  await app.register(fastifyPlugin(async (app) => service.build?.(app)));
  const opened = await openService(service, {
    collection: (definition) => storage.collection(definition),
    transaction: (subject, work) => storage.transaction(subject, work),
    tokens: createCallerTokens(storage.tokens, service, now),
    app,
    log: app.log,
    worker: parts.worker,
    draining: app.draining,
    interruption: parts.interruption,
    patience: limits.shutdownTime,
  });
  app.addHook('onClose', () => opened.close(app.isCutOff));
  app.decorate('checkService', () => opened.check());
  const authentication = await createAuthentication(parts, opened);
  app.decorate('tokenPlace', authentication.tokenPlace);
  await addOperations(app, parts, opened, authentication);
}

/** Chooses the verifiers of the contract's security schemes. */
async function createAuthentication(parts: Parts, { verifiers, credentialSchemes }: OpenedService) {
  const { service, storage, contract, identityProvider, report, now, monotonic } = parts;
  const { realm, tokenPrefix, scopes, databaseUrl } = service;
  const verifyForeign =
    identityProvider &&
    (await import('../http/security/jwt.js')).createJwtVerifier(identityProvider, scopes, now);
  const takesTokens = parts.takesTokens ?? (databaseUrl !== undefined || identityProvider !== undefined);
  const schemes = createSchemes(contract, {
    given: verifiers,
    credentialSchemes,
    tokens: storage.tokens,
    limit: parts.verifyTimeout,
    ...{ tokenPrefix, takesTokens, realm, verifyForeign, scopes, report, now, monotonic },
  });
  return { ...schemes, scopes };
}

/** Adds the operations with their own steps: authentication, body, validation and handler (http/routing/routes.ts). */
async function addOperations(
  app: FastifyInstance,
  { service, contract, compiler, limits, rates, handleError, monotonic }: Parts,
  { handlers }: OpenedService,
  authentication: AuthenticationOptions,
): Promise<void> {
  // After waiting, a body still has half of the request timeout to arrive.
  const budget = (bytes: number) => new MemoryBudget(bytes, limits.requestTimeout / 2);
  await registerRoutes(app, {
    ...{ contract, compiler, handlers, authentication, handleError },
    bodies: { limit: limits.bodyLimit, budget: budget(limits.memoryBudget) },
    lists: {
      stallTime: limits.requestTimeout,
      budget: budget(2 * limits.memoryBudget),
      turns: new PageTurns(monotonic),
    },
    ignoresBodies: service.ignoreUndeclaredBodies === true,
    countCaller: rates.subject,
  });
}

/** Maximum time for an app that does not start to close, in ms. */
const lateTime = 1_000;

/** Options of buildApp. */
export type AppOptions = PluginOptions & {
  limits?: Partial<Limits>;
  tls?: Tls | undefined;
  /** The addresses and networks of the proxies whose X-Forwarded-For is trusted. */
  trustedProxies?: readonly string[];
  /** None by default. */
  logger?: FastifyBaseLogger | undefined;
};

/** Makes an app, and serves a service on it, ready to listen or for injected requests. @throws as serveContract does. */
export async function buildApp({
  limits,
  tls,
  trustedProxies = [],
  logger,
  ...options
}: AppOptions): Promise<FastifyInstance> {
  const trustProxy = trustedProxies.length > 0 && [...trustedProxies];
  const app: FastifyInstance = Fastify(
    appOptions({ limits, tls, trustProxy, ...(logger && { loggerInstance: logger }) }),
  );
  try {
    await app.register(serveContract, options);
    await app.ready();
  } catch (error) {
    await within(app.close(), lateTime, undefined);
    throw error;
  }
  return app;
}
