// Makes the HTTP server: its bounds on connections and their pace, and TLS when there is a certificate.
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { answerClientError, cutOffStalledReaders, interceptNode } from './connection.js';
import { writeTogether } from './write-together.js';

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
      : createHttpsServer({ ...options, ...tls, handshakeTimeout: requestTimeout }, serve);
  server.maxConnections = maxConnections;
  interceptNode(server);
  writeTogether(server);
  // A slow request is first of all answered 408.
  cutOffStalledReaders(server, Math.max(stallTimeout, requestTimeout + 2 * checkingInterval));
  return server;
}
