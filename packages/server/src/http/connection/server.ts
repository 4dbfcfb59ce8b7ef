// Creates the HTTP or HTTPS server with its limits on connections and their speed.
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { DropArgument } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Limits } from '../../base/limits.js';
import { http, serveThrough } from '../../base/node/http.js';
import { respondToClientError } from './client-errors.js';
import { Connection, connectionOf } from './connection.js';
import type { Rejecting } from './rejections.js';
import { stayWithHttp, upgradeOptions } from './upgrade.js';

/** Limits on what a connection may send and how long it may take. The request timeout is also that of a TLS handshake. */
export type ServerLimits = Pick<
  Limits,
  'headerLimit' | 'requestTimeout' | 'keepAliveTimeout' | 'maxConnections'
>;

/** A certificate chain and its private key, in PEM. */
export interface Tls {
  cert: Buffer;
  key: Buffer;
  /** The keys of session tickets, 48 bytes, so that several servers resume each other's sessions. By default its own. */
  ticketKeys?: Buffer;
}

/**
 * Creates the server; the caller starts listening.
 * @param connections - It keeps the open ones here.
 * @throws Error when the certificate or the key is invalid, or they do not match.
 */
export function createServer(
  listener: RequestListener,
  limits: ServerLimits,
  tls: Tls | undefined,
  rejecting: Rejecting,
  connections: Set<Connection>,
): Server {
  const { headerLimit, requestTimeout, keepAliveTimeout, maxConnections } = limits;
  const checkingInterval = Math.min(1_000, requestTimeout);
  const options = {
    ...upgradeOptions,
    // Node would send a 400 without a body; checkHeaders sends an Error body.
    requireHostHeader: false,
    maxHeaderSize: headerLimit,
    headersTimeout: requestTimeout,
    requestTimeout,
    keepAliveTimeout,
    connectionsCheckingInterval: checkingInterval,
  };
  const serve: RequestListener = (request, response) => {
    // Node's parser accepts the HTTP/2 preface as a request with this method.
    if (request.method === 'PRI') {
      respondToClientError(
        new Error('PRI is not a method'),
        connectionOf(request) ?? request.socket,
        rejecting,
      );
    } else listener(request, response);
  };
  const server =
    tls === undefined
      ? http.createServer(options, serve)
      : createHttpsServer({ ...options, ...tls, handshakeTimeout: requestTimeout }, serve);
  server.maxConnections = maxConnections;
  server.on('drop', (dropped?: DropArgument) => {
    rejecting.report({ reason: 'connection_limit', address: dropped?.remoteAddress });
  });
  // With a limit, Node would drop further fields, Content-Length included; checkHeaders counts the fields.
  server.maxHeadersCount = 0;
  handleExpectations(server);
  const attach = serveThrough(server, tls !== undefined, (socket) => {
    const connection = new Connection(socket);
    connections.add(connection);
    return connection.once('close', () => connections.delete(connection));
  });
  stayWithHttp(server, attach, rejecting);
  // A slow request must get its 408 before this limit.
  cutOffStalledReaders(server, requestTimeout + 2 * checkingInterval);
  return server;
}

/**
 * Closes connections without activity: idle ones, and those whose client reads none of its response. Other limits apply
 * while a request arrives or is processed.
 * @param time - Maximum time without activity, in ms. It must exceed the request timeout, which ends with a response.
 */
function cutOffStalledReaders(server: Server, time: number): void {
  server.setTimeout(time, (connection: Duplex) => {
    if (!(connection instanceof Connection)) return;
    if (connection.hasResponded || connection.writableLength > 0) connection.destroy();
  });
}

/** Handles requests with an Expect header like all others: Node itself would send some responses without a body. */
function handleExpectations(server: Server): void {
  const handle = (request: IncomingMessage, response: ServerResponse) => {
    server.emit('request', request, response);
  };
  server.on('checkContinue', handle).on('checkExpectation', handle);
}
