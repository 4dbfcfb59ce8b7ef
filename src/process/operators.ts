// Opens the operations listener and reports readiness, in the process that owns the storage.
import type { FastifyInstance } from 'fastify';
import type { Config } from '../config.js';
import type { Service } from '../definition.js';
import type { OperationsOptions } from '../observability/operations-listener.js';
import { maxOperatorConnections } from './descriptors.js';
import { listenOn } from './listening.js';

/**
 * Opens the operations listener.
 * @returns Undefined when none is configured.
 * @throws ConfigError when it cannot listen.
 */
export async function listenForOperators(
  options: Omit<OperationsOptions, 'metrics'> & { metrics: OperationsOptions['metrics'] | undefined },
  { OPS_HOST: host, OPS_PORT: port }: Config,
): Promise<FastifyInstance | undefined> {
  const { metrics } = options;
  if (metrics === undefined || port === undefined) return undefined;
  const { buildOperationsListener } = await import('../observability/operations-listener.js');
  const operations = await buildOperationsListener({ ...options, metrics });
  operations.server.maxConnections = maxOperatorConnections;
  await listenOn(operations, { host, port, variables: ['OPS_HOST', 'OPS_PORT'] });
  options.log.info({ operations: operations.listeningOrigin }, 'operations listener ready');
  return operations;
}

/** Logs that the service is ready, with the URL of its contract. */
export function reportReady({ name }: Service, log: OperationsOptions['log'], origin: string): void {
  log.info({ contract: `${origin}/openapi.yaml` }, `${name} is ready`);
}
