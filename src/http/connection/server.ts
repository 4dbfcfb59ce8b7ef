// Makes the HTTP server: its bounds on connections and their pace, and TLS when there is a certificate.
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { answerClientError } from './client-errors.js';
import { lingerOnClose } from './lingering-close.js';
import { pipelines } from './request-order.js';
import { stayWithHttp, upgradeOptions } from './upgrade.js';

/** The bounds of what a connection may send and how long it may take. Lengths in bytes, times in ms. */
export interface ServerLimits {
  /** A request's header section. */
  headerLimit: number;
  /** From a request's first byte to its last; also the time for a TLS handshake. */
  requestTimeout: number;
  /** A connection without a request. */
  keepAliveTimeout: number;
  /** A reader that takes nothing. */
  stallTimeout: number;
  /** Connections at a time; further ones are closed at once. */
  maxConnections: number;
}

/** A certificate chain and its private key, in PEM. */
export interface Tls {
  cert: Buffer;
  key: Buffer;
}

/**
 * Creates the server, not listening.
 * @throws Error when the certificate and the key are not good, or not of one pair.
 */
export function createServer(listener: RequestListener, limits: ServerLimits, tls?: Tls): Server {
  const { headerLimit, requestTimeout, keepAliveTimeout, stallTimeout, maxConnections } = limits;
  const checkingInterval = Math.min(1_000, requestTimeout);
  const options = {
    ...upgradeOptions,
    // Node would answer without a body; checkHeaders answers with one.
    requireHostHeader: false,
    maxHeaderSize: headerLimit,
    headersTimeout: requestTimeout,
    requestTimeout,
    keepAliveTimeout,
    connectionsCheckingInterval: checkingInterval,
  };
  const serve: RequestListener = (request, response) => {
    // The beginning of HTTP/2, which Node's parser takes for a method, and which no route and no hook gets to see.
    if (request.method === 'PRI') answerClientError(new Error('PRI is no method'), request.socket);
    else listener(request, response);
  };
  const server =
    tls === undefined
      ? createHttpServer(options, serve)
      : createHttpsServer(
          { ...options, ...tls, handshakeTimeout: requestTimeout, allowHalfOpen: true },
          serve,
        );
  server.maxConnections = maxConnections;
  // Node would drop the fields beyond a number, and with them the length of a body; checkHeaders counts them.
  server.maxHeadersCount = 0;
  answerInsteadOfNode(server);
  stayWithHttp(server, tls === undefined ? 'connection' : 'secureConnection');
  answerHalfClosed(server);
  lingerOnClose(server);
  // A slow request is answered 408 before.
  cutOffStalledReaders(server, Math.max(stallTimeout, requestTimeout + 2 * checkingInterval));
  return server;
}

/**
 * Closes connections on which nothing moves: idle ones after their keep-alive time, and those whose client takes no
 * byte of what is there for it. A request that arrives or is worked on has limits of its own.
 * @param time - How long nothing may move, in ms; longer than a request may take to arrive, which is answered.
 */
function cutOffStalledReaders(server: Server, time: number): void {
  server.setTimeout(time, (socket: Socket) => {
    const answered = pipelines.get(socket)?.last?.writableFinished ?? true;
    if (answered || socket.writableLength > 0) socket.destroy();
  });
}

/** Handles requests with an Expect header like all others: Node would answer some of them by itself, without a body. */
function answerInsteadOfNode(server: Server): void {
  const handle = (request: IncomingMessage, response: ServerResponse) => {
    server.emit('request', request, response);
  };
  server.on('checkContinue', handle).on('checkExpectation', handle);
}

/**
 * Lets a client that has ended its side of the connection still get its answers. Node would end the other side at once,
 * and has no option against that, only this property of its server, which its types leave out.
 */
function answerHalfClosed(server: Server & { httpAllowHalfOpen?: boolean }): void {
  server.httpAllowHalfOpen = true;
}
