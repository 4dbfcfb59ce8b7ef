// Creates the HTTP server, and the server of TCP or TLS in front of it, with their limits on connections and their speed.
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { createServer as createTcpServer, type DropArgument, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { Limits } from '../../base/limits.js';
import { FrontedServer } from '../../base/node/fronted-server.js';
import { respondToClientError, type Rejecting } from './client-errors.js';
import { Connection, connectionOf, type InputPolicy, type Refusal } from './connection.js';
import { mayUpgrade } from './upgrade.js';

/** Limits on what a connection may send and how long it may take. The request timeout is also that of a TLS handshake. */
export type ServerLimits = Pick<
  Limits,
  'headerLimit' | 'requestTimeout' | 'keepAliveTimeout' | 'maxConnections'
>;

/** A certificate chain and its private key, in PEM. */
export interface Tls {
  cert: Buffer;
  key: Buffer;
}

/**
 * Creates the server; the caller starts listening.
 * @throws Error when the certificate or the key is invalid, or they do not match.
 */
export function createServer(
  listener: RequestListener,
  limits: ServerLimits,
  tls: Tls | undefined,
  rejecting: Rejecting,
): FrontedServer {
  const { headerLimit, requestTimeout, keepAliveTimeout } = limits;
  const checkingInterval = Math.min(1_000, requestTimeout);
  const shouldUpgradeCallback = (request: IncomingMessage): boolean =>
    server.listenerCount('upgrade') > 0 && mayUpgrade(request);
  const server: FrontedServer = new FrontedServer(createFront(limits, tls, rejecting), {
    // Node would send a 400 without a body; checkHeaders sends an Error body.
    requireHostHeader: false,
    // It would keep the first Host or Authorization of several, and a proxy may keep another.
    joinDuplicateHeaders: true,
    maxHeaderSize: headerLimit,
    headersTimeout: requestTimeout,
    requestTimeout,
    keepAliveTimeout,
    connectionsCheckingInterval: checkingInterval,
    ...{ shouldUpgradeCallback },
  });
  const refuse = (connection: Connection, reason: Refusal) => {
    if (reason === 'malformed') respondToClientError(new Error(reason), connection, rejecting);
    else rejecting.report({ type: 'rejected', reason, address: connection.remoteAddress });
  };
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    const connection = connectionOf(request)!;
    // Node's parser accepts the HTTP/2 preface as a request with this method.
    if (request.method === 'PRI') refuse(connection, 'malformed');
    else if (connection.begin(request, response)) listener(request, response);
  };
  // Node itself would respond to some expectations without a body, and to CONNECT by closing the connection.
  server.on('request', serve).on('checkContinue', serve).on('checkExpectation', serve);
  server.on('connect', (request) => {
    refuse(connectionOf(request)!, 'malformed');
  });
  // With a limit, Node would drop further fields, Content-Length included.
  server.maxHeadersCount = 0;
  // A slow request must get its 408 before this limit on the time without activity.
  server.setTimeout(requestTimeout + 2 * checkingInterval);
  const policy: InputPolicy = { waiting: 0, refuse, isClosed: () => !server.listening };
  server.front.on(tls === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
    socket.allowHalfOpen = true;
    const connection = new Connection(socket, policy);
    if (policy.isClosed()) connection.destroy();
    server.accepted.add(connection);
    connection.once('close', () => server.accepted.delete(connection));
    server.emit('connection', connection);
  });
  return server;
}

/** Creates the server that accepts the connections. */
function createFront(
  { requestTimeout, maxConnections }: ServerLimits,
  tls: Tls | undefined,
  rejecting: Rejecting,
): FrontedServer['front'] {
  // A client that has half-closed its connection may want its response, but not before the TLS handshake.
  const options = { allowHalfOpen: tls === undefined, noDelay: true };
  const ofTls = { ...options, ...tls, handshakeTimeout: requestTimeout, ALPNProtocols: ['http/1.1'] };
  const front = tls === undefined ? createTcpServer(options) : createTlsServer(ofTls);
  front.maxConnections = maxConnections;
  front.on('drop', (dropped?: DropArgument) => {
    rejecting.report({ type: 'rejected', reason: 'connection_limit', address: dropped?.remoteAddress });
  });
  front.on('tlsClientError', ({ code }: NodeJS.ErrnoException, socket: Socket) => {
    const { remoteAddress: address } = socket;
    socket.destroy();
    // Then the client has only left.
    if (code !== 'ECONNRESET') rejecting.report({ type: 'rejected', reason: 'tls_handshake', address });
  });
  return front;
}
