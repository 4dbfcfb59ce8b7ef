// Listens on the configured addresses.
import { lookup } from 'node:dns/promises';
import { ConfigError, type Config } from '../config.js';

/**
 * Listens on the configured address.
 * @returns What the listener returns.
 * @throws ConfigError naming the variable that prevents it.
 */
export function listen<T>(listener: Listener<T>, { HOST: host, PORT: port }: Config): Promise<T> {
  return listenOn(listener, { host, port, variables: ['HOST', 'PORT'] });
}

/** What can listen on an address: an app of Fastify, or the acceptor of a service with workers. */
export interface Listener<T> {
  listen(address: { host: string; port: number }): Promise<T>;
}

/** An address to listen on. */
export interface ListenAddress {
  host: string;
  port: number;
  /** The names of the variables that hold the host and the port. */
  variables: readonly [host: string, port: string];
}

/**
 * Listens on an address.
 * @returns What the listener returns.
 * @throws ConfigError naming the variable that prevents it.
 */
export async function listenOn<T>(
  listener: Listener<T>,
  { host, port, variables }: ListenAddress,
): Promise<T> {
  const [hostName, portName] = variables;
  // Only one address: for a name with several, Fastify opens servers that it neither lists nor waits for on close.
  const { address } = await lookup(host, { order: 'ipv4first' }).catch((error: unknown) => {
    throw new ConfigError(`${hostName}: ${(error as Error).message}`);
  });
  try {
    return await listener.listen({ host: address, port });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE') {
      throw new ConfigError(`${portName}: port ${port} of ${address} is already in use; choose another one`);
    }
    throw new ConfigError(`${code === 'EACCES' ? portName : hostName}: ${message}`);
  }
}
