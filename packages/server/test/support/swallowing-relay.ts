// A TCP relay that can drop everything on its connections, as a network does that has forgotten them.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Test } from 'tap';

/**
 * Starts a relay that ends with the test.
 * @param port - Where it connects to.
 * @returns Its port, and what makes it drop everything on the connections that exist then; later ones work.
 */
export async function startSwallowingRelay(
  t: Test,
  port: number,
): Promise<{ port: number; swallow: () => void }> {
  const sockets = new Set<Socket>();
  const relay = createServer((client) => {
    const server = connect(port, '127.0.0.1');
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
    }
    client.pipe(server).pipe(client);
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  t.teardown(() => {
    relay.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    port: (relay.address() as AddressInfo).port,
    swallow() {
      for (const socket of sockets) socket.unpipe().resume();
    },
  };
}
