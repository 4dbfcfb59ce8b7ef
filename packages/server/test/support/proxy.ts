// TCP proxies, with real sockets, that do something to what they pass on.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Test } from 'tap';

/**
 * Starts a proxy that ends with the test.
 * @param port - Where it connects to.
 * @param join - Is called with both sides of each connection.
 * @returns Its port, and the sockets of all connections.
 */
export async function startProxy(t: Test, port: number, join: (client: Socket, server: Socket) => void) {
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connect(port, '127.0.0.1');
    for (const socket of [client, server]) {
      sockets.add(socket);
      // A broken connection causes an error; only its closing matters.
      socket.on('error', () => undefined);
    }
    join(client, server);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  });
  return { port: (proxy.address() as AddressInfo).port, sockets };
}

/** Closes both sides of a connection when one is closed. */
export function closeTogether(client: Socket, server: Socket): void {
  client.on('close', () => server.destroy());
  server.on('close', () => client.destroy());
}
