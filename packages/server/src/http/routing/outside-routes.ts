// Watches the routes that a service adds to those of its contract, so that they take none of the contract's requests.
import type { FastifyInstance, preParsingHookHandler } from 'fastify';
import type { Operation } from '../../contract/operations.js';
import { continueIfExpected } from '../connection/host-and-expect.js';

/** A route outside of the contract would get requests that the contract describes. */
export class RouteError extends Error {
  override readonly name = 'RouteError';
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the server itself has added the route, beside those of the contract. */
    isOfServer?: boolean;
  }
  interface FastifyInstance {
    /** The routes of the service outside of the contract, as in `GET /files/*`. */
    readonly outsideRoutes: readonly string[];
  }
}

/**
 * Collects the routes that are added from now on.
 * @throws RouteError, where such a route is added, if the router would prefer it to an operation.
 */
export function watchRoutes(app: FastifyInstance, operations: readonly Operation[]): void {
  const outside = new Set<string>();
  app.decorate('outsideRoutes', { getter: () => [...outside] });
  app.addHook('onRoute', (route) => {
    const { method, url, config, preParsing = [] } = route;
    if (config?.operationId !== undefined || config?.isOfServer === true) return;
    route.preParsing = [expectBody, ...[preParsing].flat()];
    for (const verb of [method].flat()) {
      const taken = operations.find(
        ({ method, basePaths, path }) =>
          (method === verb || (method === 'GET' && verb === 'HEAD')) &&
          basePaths.some((base) => takes(url, base + path)),
      );
      if (taken !== undefined)
        throw new RouteError(
          `the route ${verb} ${url} would get requests for ${taken.operationId} of the contract ` +
            `(${taken.method} ${taken.path}): give it another path`,
        );
      if (verb !== 'HEAD') outside.add(`${verb} ${url}`);
    }
  });
}

/** Fastify reads the body from here on; operations ask for theirs when there is memory for it. */
const expectBody: preParsingHookHandler = (request, reply, payload, done) => {
  continueIfExpected(request, reply);
  done(null, payload);
};

/**
 * Whether the router would send a request whose path a template matches to a route. It prefers texts to parameters, and
 * these to wildcards, segment by segment.
 */
function takes(url: string, template: string): boolean {
  const segments = url.split('/');
  const others = template.split('/');
  let isPreferred = false;
  for (const [i, segment] of segments.entries()) {
    const other = others[i];
    if (segment.startsWith('*') || other === undefined) return isPreferred && other !== undefined;
    const isParameter = segment.startsWith(':');
    if (other.includes('{')) isPreferred ||= !isParameter;
    else if (isParameter && !isPreferred) return false;
    else if (!isParameter && segment !== other) return false;
  }
  return segments.length === others.length;
}
