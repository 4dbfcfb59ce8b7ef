// Listens on the configured addresses: of the service, and of the admin listener.
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { AdminOptions } from '../observability/admin-listener.js';
import { AddressError, type Config } from './config.js';

/** An address to listen on. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * Calls a function that listens on an address.
 * @param prefix - That of the two variables that have it.
 * @throws AddressError naming the variable that prevents it.
 */
async function listen<T>(
  prefix: '' | 'OPS_',
  { host, port }: Address,
  listenOn: (address: Address) => Promise<T>,
): Promise<T> {
  try {
    // For this name, Fastify would open a second server, which it neither lists nor waits for on close.
    return await listenOn({ host: host === 'localhost' ? '127.0.0.1' : host, port });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE')
      throw new AddressError(`${prefix}PORT: port ${port} of ${host} is already in use; choose another one`);
    throw new AddressError(`${prefix}${code === 'EACCES' ? 'PORT' : 'HOST'}: ${message}`);
  }
}

/**
 * Listens on the address of the service.
 * @throws AddressError naming the variable that prevents it.
 */
export async function listenAlone(app: FastifyInstance, { HOST: host, PORT: port }: Config): Promise<void> {
  await listen('', { host, port }, (address) => app.listen({ ...address }));
}

/**
 * Finds the address on which several threads can listen together, with `reusePort`. It listens there alone first, because
 * threads that share a port would also share it with another server that does. This also chooses port 0.
 * @throws AddressError naming the variable that prevents it.
 */
export function findAddress({ HOST: host, PORT: port }: Config): Promise<Address> {
  return listen('', { host, port }, async (address) => {
    const server = createServer((socket) => socket.destroy()).listen({ ...address });
    await once(server, 'listening');
    const { port: chosen } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    return { host: address.host, port: chosen };
  });
}

/**
 * Opens the admin listener, in the thread that owns the storage.
 * @returns Undefined when none is configured.
 * @throws AddressError when it cannot listen.
 */
export async function openAdminListener(
  { metrics, ...options }: Omit<AdminOptions, 'metrics'> & { metrics: AdminOptions['metrics'] | undefined },
  { OPS_HOST: host, OPS_PORT: port }: Config,
): Promise<FastifyInstance | undefined> {
  if (metrics === undefined || port === undefined) return undefined;
  const { buildAdminListener } = await import('../observability/admin-listener.js');
  const admin = await buildAdminListener({ ...options, metrics });
  await listen('OPS_', { host, port }, (address) => admin.listen({ ...address }));
  options.log.info({ operations: admin.listeningOrigin }, 'admin listener ready');
  return admin;
}
