// Listens on an address, which the service and the admin listener have.
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { AddressError } from './config.js';

/** An address to listen on. */
export interface Address {
  readonly host: string;
  readonly port: number;
  /** Whether several threads listen on it, to which the kernel distributes the connections. */
  readonly reusePort?: boolean;
}

/**
 * Listens on an address.
 * @param prefix - The prefix of the two variables that have the address.
 * @returns The address with its port, which port 0 chooses.
 * @throws AddressError naming the variable that prevents it.
 */
export async function listenOn(
  app: FastifyInstance,
  address: Address,
  prefix: '' | 'OPS_' = '',
): Promise<Address> {
  // For this name, Fastify would open a second server, which it neither lists nor waits for on close.
  const host = address.host === 'localhost' ? '127.0.0.1' : address.host;
  try {
    await app.listen({ ...address, host });
    return { ...address, port: (app.server.address() as AddressInfo).port };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE')
      throw new AddressError(
        `${prefix}PORT: port ${address.port} of ${host} is already in use; choose another one`,
      );
    throw new AddressError(`${prefix}${code === 'EACCES' ? 'PORT' : 'HOST'}: ${message}`);
  }
}
