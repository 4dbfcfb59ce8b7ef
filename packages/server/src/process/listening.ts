// Listens on an address, which the service and the admin listener have.
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { AddressError, type Config } from './config.js';

/** An address to listen on. */
export interface Address {
  readonly host: string;
  readonly port: number;
  /** Whether several threads listen on it, to which the kernel distributes the connections. */
  readonly reusePort?: boolean;
}

/**
 * Listens on an address.
 * @param listen - Resolves when it listens. It may change its options.
 * @param prefix - The prefix of the two variables that have the address.
 * @throws AddressError naming the variable that prevents it.
 */
export async function listenOn(
  address: Address,
  listen: (options: { host: string; port: number }) => Promise<unknown>,
  prefix: '' | 'OPS_' = '',
): Promise<void> {
  // For this name, Fastify would open a second server, which it neither lists nor waits for on close.
  const host = address.host === 'localhost' ? '127.0.0.1' : address.host;
  try {
    await listen({ ...address, host });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE')
      throw new AddressError(
        `${prefix}PORT: port ${address.port} of ${host} is already in use; choose another one`,
      );
    throw new AddressError(`${prefix}${code === 'EACCES' ? 'PORT' : 'HOST'}: ${message}`);
  }
}

/**
 * Finds the address of the service. For several threads, it listens there alone first, because threads that share a port
 * would also share it with another server that does. This also chooses port 0.
 * @throws AddressError naming the variable that prevents it.
 */
export async function findAddress({ HOST: host, PORT: port, WORKERS }: Config): Promise<Address> {
  if (WORKERS === 1) return { host, port };
  const server = createServer((socket) => socket.destroy());
  await listenOn({ host, port }, (options) => once(server.listen(options), 'listening'));
  const { port: chosen } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return { host, port: chosen, reusePort: true };
}
