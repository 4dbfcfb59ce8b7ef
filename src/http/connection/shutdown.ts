// The end of the service: requests that clients have sent are answered, and no connection holds up the exit.
import { Server, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { FastifyInstance } from 'fastify';
import { closing } from './lingering-close.js';

/** How long a request may be on its way, in ms: so long a connection without one is kept open. */
const requestTravelTime = 1_000;
/** How often the server looks for connections that it can close, in ms. */
const checkInterval = 50;

declare module 'fastify' {
  interface FastifyInstance {
    /** From now on every answer asks its client to open a new connection, which may lead elsewhere. */
    drain(): void;
    /** Whether that has begun. */
    readonly draining: boolean;
    /** Closes every connection at once, whatever happens on it. */
    cutOff(): void;
  }
}

/**
 * Makes a service that can be drained, and whose close() sends all answers to their last byte, but waits for no quiet
 * connection.
 * @param app - Without routes yet.
 */
export function prepareShutdown(app: FastifyInstance): void {
  let draining = false;
  app.decorate('drain', () => {
    draining = true;
  });
  app.decorate('draining', { getter: () => draining });
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (draining) reply.header('connection', 'close');
    done(null, payload);
  });

  const openedAt = new Map<Socket, number>();
  const track = (socket: Socket) => {
    // One that had asked for an Upgrade is attached to the server again.
    if (openedAt.has(socket)) return;
    openedAt.set(socket, performance.now());
    socket.once('close', () => openedAt.delete(socket));
  };
  // Over TLS a connection exists after its handshake, and its bytes are counted from there.
  app.server.on('connection', track).on('secureConnection', track);
  app.decorate('cutOff', () => {
    for (const socket of openedAt.keys()) socket.destroy();
  });
  const sends = (socket: Socket) => socket.writableLength > 0 || closing.has(socket);
  const closeQuietConnections = () => {
    // Node takes a connection for idle when its answer has ended, and would cut off what is not sent of it yet.
    if (![...openedAt.keys()].some(sends)) app.server.closeIdleConnections();
    // Node does not call a connection idle on which nothing has ever arrived.
    for (const [socket, opened] of openedAt) {
      if (socket.bytesRead === 0 && performance.now() - opened > requestTravelTime) socket.destroy();
    }
  };
  app.addHook('preClose', async () => {
    draining = true;
    if (!app.server.listening) return;
    // That of http.Server also closes what it takes for idle, and has no option against it; this only stops listening.
    Server.prototype.close.call(app.server);
    // Again and again: an answer that had begun before does not close its connection.
    while (openedAt.size > 0) {
      closeQuietConnections();
      await pause(checkInterval);
    }
  });
}

/** How long the phases of a shutdown may take, in ms. */
export interface ShutdownTimes {
  /** How long the service goes on taking connections. */
  drainTime: number;
  /** How long running requests and the sending of their answers may take after that before they are cut off. */
  patience: number;
}

/**
 * Ends a service in order. Node cuts idle connections as soon as the server stops listening, and with them the requests
 * that are on their way. Therefore it listens on until they have arrived, at least for a second unless no connection is
 * left, and answers them with `Connection: close`.
 */
export async function shutDown(app: FastifyInstance, { drainTime, patience }: ShutdownTimes): Promise<void> {
  app.drain();
  const countConnections = promisify(app.server.getConnections.bind(app.server));
  const end = performance.now() + Math.max(drainTime, requestTravelTime);
  while (performance.now() < end && (drainTime > 0 || (await countConnections()) > 0)) {
    await pause(checkInterval);
  }
  const deadline = setTimeout(() => {
    app.log.warn('requests were still running at the end of SHUTDOWN_SECONDS');
    app.cutOff();
  }, patience);
  await app.close();
  clearTimeout(deadline);
}
