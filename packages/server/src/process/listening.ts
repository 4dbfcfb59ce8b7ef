// Listens on the configured addresses: of the service, and of the admin listener.
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { AddressError, type Config } from './config.js';
import type { Service } from '../service/definition.js';
import type { AdminOptions } from '../observability/admin-listener.js';
import { describeStore, type OpenStorage } from '../storage/open.js';
import { version } from '../base/version.js';
import { notifyReady } from './systemd.js';

/** Something that can listen on an address: an app of Fastify, or a probe that finds out whether the address is free. */
interface Listener<T> {
  listen(address: { host: string; port: number }): Promise<T>;
}

/**
 * Listens on the address of two variables.
 * @returns The listener's result.
 * @throws AddressError naming the variable that prevents it.
 */
export async function listen<T>(
  listener: Listener<T>,
  [hostName, host]: readonly [name: string, value: string],
  [portName, port]: readonly [name: string, value: number],
): Promise<T> {
  // One address is enough: for a name with several, Fastify opens servers that it neither lists nor waits for on close.
  const { address } = await lookup(host, { order: 'ipv4first' }).catch((error: unknown) => {
    throw new AddressError(`${hostName}: ${(error as Error).message}`);
  });
  try {
    return await listener.listen({ host: address, port });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE') {
      throw new AddressError(`${portName}: port ${port} of ${address} is already in use; choose another one`);
    }
    throw new AddressError(`${code === 'EACCES' ? portName : hostName}: ${message}`);
  }
}

/**
 * Finds the address on which several threads can listen together: that of `listenTogether`. It listens there alone first,
 * because threads that share a port would also share it with another server that does. This also chooses port 0.
 * @throws AddressError naming the variable that prevents it.
 */
export function findAddress({ HOST, PORT }: Config): Promise<{ host: string; port: number }> {
  const alone: Listener<{ host: string; port: number }> = {
    listen: async (at) => {
      const server = createServer((socket) => socket.destroy()).listen(at);
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      server.close();
      await once(server, 'close');
      return { host: at.host, port };
    },
  };
  return listen(alone, ['HOST', HOST], ['PORT', PORT]);
}

/** Listens on an address on which others listen in the same way, so that the kernel distributes the connections. */
export async function listenTogether(
  app: FastifyInstance,
  at: { readonly host: string; readonly port: number },
): Promise<void> {
  const shared = { ...at, reusePort: true };
  await app.listen(shared);
}

/**
 * Opens the admin listener, in the thread that owns the storage.
 * @returns Undefined when none is configured.
 * @throws AddressError when it cannot listen.
 */
export async function openAdminListener(
  options: Omit<AdminOptions, 'metrics'> & { metrics: AdminOptions['metrics'] | undefined },
  { OPS_HOST, OPS_PORT }: Config,
): Promise<FastifyInstance | undefined> {
  const { metrics } = options;
  if (metrics === undefined || OPS_PORT === undefined) return undefined;
  const { buildAdminListener } = await import('../observability/admin-listener.js');
  const admin = await buildAdminListener({ ...options, metrics });
  await listen(admin, ['OPS_HOST', OPS_HOST], ['OPS_PORT', OPS_PORT]);
  options.log.info({ operations: admin.listeningOrigin }, 'admin listener ready');
  return admin;
}

/** Logs that the service is ready, and what it runs with; tells systemd, if that waits for it (`Type=notify`). */
export function reportReady(
  { name }: Service,
  log: AdminOptions['log'],
  { DATABASE_URL, WORKERS: threads }: Config,
  { isNew: created = false }: OpenStorage,
  origin: string,
): void {
  const facts = { version, store: describeStore(DATABASE_URL), created, threads, origin };
  log.info({ ...facts, contract: `${origin}/openapi.yaml` }, `${name} is ready`);
  notifyReady(log);
}
