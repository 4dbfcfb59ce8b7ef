// Opens the admin listener and reports readiness, in the process that owns the storage.
import type { FastifyInstance } from 'fastify';
import type { Config } from '../config.js';
import type { Service } from '../definition.js';
import type { AdminOptions } from '../observability/admin-listener.js';
import { listenOn } from './listening.js';

/**
 * Opens the admin listener.
 * @returns Undefined when none is configured.
 * @throws ConfigError when it cannot listen.
 */
export async function openAdminListener(
  options: Omit<AdminOptions, 'metrics'> & { metrics: AdminOptions['metrics'] | undefined },
  { OPS_HOST: host, OPS_PORT: port }: Config,
): Promise<FastifyInstance | undefined> {
  const { metrics } = options;
  if (metrics === undefined || port === undefined) return undefined;
  const { buildAdminListener } = await import('../observability/admin-listener.js');
  const admin = await buildAdminListener({ ...options, metrics });
  await listenOn(admin, { host, port, variables: ['OPS_HOST', 'OPS_PORT'] });
  options.log.info({ operations: admin.listeningOrigin }, 'admin listener ready');
  return admin;
}

/** Logs that the service is ready, with the URL of its contract. */
export function reportReady({ name }: Service, log: AdminOptions['log'], origin: string): void {
  log.info({ contract: `${origin}/openapi.yaml` }, `${name} is ready`);
}
