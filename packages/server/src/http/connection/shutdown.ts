// Graceful shutdown: requests that clients have sent get their responses, and no connection delays the exit.
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';

/** The time for a request to reach the server, in ms: connections without a request stay open this long. */
const requestTravelTime = 1_000;
/** The interval of checks for connections that can be closed, in ms. */
const checkInterval = 50;

declare module 'fastify' {
  interface FastifyInstance {
    /** Adds `Connection: close` to every further response, so that clients reconnect, possibly to another server. */
    drain(): void;
    /** Whether drain() has been called, or the service is closing. */
    readonly draining: boolean;
    /** The number of open connections, including those in the TLS handshake. */
    readonly openConnections: number;
    /** Closes every connection at once, even during a response. */
    cutOff(): void;
  }
}

/**
 * Adds drain() and cutOff(), and makes close() send all responses completely without waiting for idle connections.
 * @param app - The app, before any routes are registered.
 * @returns A promise that resolves when the connections are cut off.
 */
export function prepareShutdown(app: FastifyInstance): Promise<void> {
  let draining = false;
  app.decorate('drain', () => {
    draining = true;
  });
  app.decorate('draining', { getter: () => draining });
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (draining) reply.header('connection', 'close');
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
  app.addHook('preClose', async () => {
    draining = true;
    if (app.front.listening) app.front.close();
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
  });
  return isCutOff;
}
