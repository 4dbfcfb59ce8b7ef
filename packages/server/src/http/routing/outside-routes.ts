// Watches the routes that a service adds to those of its contract.
import type { FastifyInstance, preParsingHookHandler } from 'fastify';
import { continueIfExpected } from '../connection/host-and-expect.js';

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

/** Collects the routes that are added from now on. */
export function watchRoutes(app: FastifyInstance): void {
  const outside = new Set<string>();
  app.decorate('outsideRoutes', { getter: () => [...outside] });
  app.addHook('onRoute', (route) => {
    const { method, url, config, preParsing = [] } = route;
    if (config?.operationId !== undefined || config?.isOfServer === true) return;
    route.preParsing = [expectBody, ...[preParsing].flat()];
    for (const verb of [method].flat()) if (verb !== 'HEAD') outside.add(`${verb} ${url}`);
  });
}

/** Fastify reads the body from here on; operations ask for theirs when there is memory for it. */
const expectBody: preParsingHookHandler = (request, reply, payload, done) => {
  continueIfExpected(request, reply);
  done(null, payload);
};
