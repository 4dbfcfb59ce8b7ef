// An HTTP server that gets its connections from another server, its front.
import type { ServerOptions } from 'node:http';
import type { AddressInfo, Server as NetServer } from 'node:net';

/** Node.js's HTTP module. An import statement would also load its fetch, which takes longer than most of the service. */
export const http = process.getBuiltinModule('node:http');

/**
 * An HTTP server that listens through a server of node:net or node:tls, its front. The front owns the address and its
 * sockets; its owner gives each connection to this server by the documented event 'connection'. To Fastify and its plugins
 * it looks as if this server listened itself.
 *
 * - Promise: requests time out, and idle connections close at a shutdown.
 * - Test: test/http/connection/connection.test.ts, "a request that does not arrive in time returns 408".
 * - Node: lib/_http_server.js, setupConnectionsTracking. It begins to look after connections at 'listening' only.
 */
export class FrontedServer extends http.Server {
  readonly front: NetServer;
  /** The open connections; those of TLS after the handshake. */
  readonly accepted = new Set<{ readonly isIdle: boolean; destroy(): unknown }>();

  constructor(front: NetServer, options: ServerOptions) {
    super(options);
    this.front = front;
    Object.defineProperty(this, 'listening', { get: () => front.listening });
    front.on('listening', () => this.emit('listening'));
    front.on('error', (error) => this.emit('error', error));
  }

  override listen(...where: unknown[]): this {
    (this.front as { listen(...where: unknown[]): unknown }).listen(...where);
    return this;
  }

  /** Stops listening, and closes idle connections; its owner ends the others. The callback is called when none is left. */
  override close(callback?: (error?: Error) => void): this {
    this.front.close((error) => {
      super.close();
      callback?.(error);
    });
    this.closeIdleConnections();
    return this;
  }

  /** Node itself would also close connections whose responses are not sent yet. */
  override closeIdleConnections(): void {
    for (const connection of this.accepted) if (connection.isIdle) connection.destroy();
  }

  override address(): AddressInfo | string | null {
    return this.front.address();
  }

  override getConnections(callback: (error: Error | null, count: number) => void): this {
    this.front.getConnections(callback);
    return this;
  }
}
