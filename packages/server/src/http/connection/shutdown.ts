// Graceful shutdown: requests that clients have sent get their responses, and no connection delays the exit.
import { setMaxListeners } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { FrontedServer } from '../../base/node/fronted-server.js';

/** The time for a request to reach the server, in ms: connections without a request stay open this long. */
const requestTravelTime = 1_000;
/** The interval of checks for connections that can be closed, in ms. */
const checkInterval = 50;

declare module 'fastify' {
  interface FastifyInstance {
    /** Adds `Connection: close` to every further response, so that clients reconnect, possibly to another server. */
    drain(): void;
    /** Aborts when drain() is called, or the service begins to close. */
    readonly draining: AbortSignal;
    /** The number of open connections, including those in the TLS handshake. */
    readonly openConnections: number;
    /** Closes every connection at once, even during a response. */
    cutOff(): void;
    /** Resolves when cutOff() is called. */
    readonly isCutOff: Promise<void>;
  }
}

/**
 * Adds drain() and cutOff(), and makes close() send all responses completely without waiting for idle connections.
 * @param app - The app, before any routes are registered.
 */
export function prepareShutdown(app: FastifyInstance): void {
  const draining = new AbortController();
  // Each stream that is open may listen.
  setMaxListeners(0, draining.signal);
  app.decorate('drain', () => {
    draining.abort();
  });
  app.decorate('draining', draining.signal);
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (draining.signal.aborted) reply.header('connection', 'close');
    done(null, payload);
  });

  const sockets = new Set<Socket>();
  app.front.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  app.decorate('openConnections', { getter: () => sockets.size });
  const isCutOff = new Promise<void>((resolve) => {
    app.decorate('cutOff', () => {
      for (const socket of [...app.connections, ...sockets]) socket.destroy();
      resolve();
    });
  });
  app.decorate('isCutOff', isCutOff);
  // It does not wait, since plugins may have hooks that end their connections; the server does, when it closes.
  app.addHook('preClose', (done) => {
    draining.abort();
    // A request may be on its way on an idle one.
    if (app.server instanceof FrontedServer) app.server.isIdleKept = true;
    void endConnections(app, sockets);
    done();
  });
}

/** Ends the connections of an app that closes, each when it has no request. */
async function endConnections(app: FastifyInstance, sockets: ReadonlySet<Socket>): Promise<void> {
  const due = performance.now() + requestTravelTime;
  // Repeatedly, because a response that started before the shutdown does not close its connection.
  while (sockets.size > 0) {
    const isDue = performance.now() >= due;
    for (const connection of app.connections) {
      if (connection.isIdle && (isDue || connection.bytesRead > 0)) connection.destroy();
    }
    for (const socket of sockets) if (isDue && socket.bytesRead === 0) socket.destroy();
    await pause(checkInterval);
  }
}
