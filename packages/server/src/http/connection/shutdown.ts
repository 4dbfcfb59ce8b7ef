// Graceful shutdown: requests that clients have sent get their responses, and no connection delays the exit.
import { setMaxListeners } from 'node:events';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

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
      app.server.closeAllConnections();
      for (const socket of sockets) socket.destroy();
      resolve();
    });
  });
  app.decorate('isCutOff', isCutOff);
  app.addHook('preClose', (done) => {
    draining.abort();
    // Over TLS, those before the handshake. The server ends the others, after the hooks of plugins.
    for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
    done();
  });
}
