// What the process that owns the storage does for its operators: their listener, and a developer's first token.
import { lookup } from 'node:dns/promises';
import type { FastifyInstance } from 'fastify';
import type { Config } from '../config.js';
import type { Storage } from '../domain/storage.js';
import { scopes } from '../domain/tokens.js';
import { issueToken } from '../http/security/access-token.js';
import type { OperationsOptions } from '../observability/operations-listener.js';
import { maxOperatorConnections } from './service.js';

/** Opens the operations listener, where there is to be one. */
export async function listenForOperators(
  options: Omit<OperationsOptions, 'metrics'> & { metrics: OperationsOptions['metrics'] | undefined },
  { OPS_HOST, OPS_PORT: port }: Config,
): Promise<FastifyInstance | undefined> {
  const { metrics } = options;
  if (metrics === undefined || port === undefined) return undefined;
  const { buildOperationsListener } = await import('../observability/operations-listener.js');
  const operations = await buildOperationsListener({ ...options, metrics });
  operations.server.maxConnections = maxOperatorConnections;
  const { address: host } = await lookup(OPS_HOST, { order: 'ipv4first' });
  await operations.listen({ host, port });
  options.log.info({ operations: operations.listeningOrigin }, 'operators are served');
  return operations;
}

/** Says where the contract is, and that all is there which a client needs. */
export function reportReady(log: OperationsOptions['log'], origin: string): void {
  log.info({ contract: `${origin}/openapi.yaml` }, 'plant-store is ready');
}

/**
 * With --dev, on a developer's own machine, with no token there yet, a first one saves a step. It never gets into the
 * log.
 */
export async function offerFirstToken(origin: string, { tokens }: Storage, config: Config): Promise<void> {
  const loopback = ['127.0.0.1', '::1', 'localhost'].includes(config.HOST);
  if (!process.argv.includes('--dev') || !loopback || config.NODE_ENV === 'production') return;
  if ((await tokens.list()).length > 0) return;
  const { token, secret } = await issueToken(tokens, { subject: 'dev', scopes, now: Date.now() });
  process.stderr.write(`
A first access token, for subject "${token.subject}". It is shown this once:

  ${secret}

Try it:

  curl -i ${origin}/plants -H 'Authorization: Bearer ${secret}' \\
    -H 'Content-Type: application/json' -d '{"id": 1, "name": "Monstera deliciosa", "tag": "indoor"}'

`);
}
