// A TCP port that is free, for a server that has to know its port before it listens.
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Finds a port of 127.0.0.1 that nobody listens on. It is not reserved: somebody else may come to use it.
 * @returns {Promise<number>}
 */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
}
