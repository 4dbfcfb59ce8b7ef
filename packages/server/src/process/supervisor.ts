// The parent of the workers, which owns the port, the writer, the admin listener and the shutdown.
import { fork } from 'node:child_process';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import Fastify, { type FastifyBaseLogger } from 'fastify';
import type { Config } from '../config.js';
import type { Service } from '../definition.js';
import { openLog, openOutput } from '../observability/log-destination.js';
import type { Metrics } from '../observability/metrics.js';
import { RejectionLog } from '../observability/rejection-log.js';
import { drained } from '../http/connection/shutdown.js';
import { Acceptor } from './acceptor.js';
import { connectionRoom } from './system-limits.js';
import { greetDeveloper } from './development-message.js';
import { slotVariable, workerVariable, writerVariable } from './worker-messages.js';
import { endOnSignal } from './signals.js';
import { listen, openAdminListener, reportReady } from './listening.js';
import {
  loadMetrics,
  logOptions,
  maxConnectionsOf,
  openConfiguredStorage,
  warnOfConfiguration,
} from './configured-service.js';
import { countWorkers, shareLimits } from './shared-limits.js';
import { leastStartTime, WorkerPool, type WorkerPoolOptions } from './worker-pool.js';

/** How long to wait for workers to exit after their own time limits have passed, in ms. */
const endGrace = 5_000;

/**
 * The descriptors of the supervisor that a worker takes: its channel, its two streams, its way to the writer, and the
 * connections on their way to it.
 */
const descriptorsPerWorker = 6;

/**
 * Starts the configured number of workers, and restarts those that die. Resolves when all of them serve.
 * @param dev - Whether the server runs in development mode.
 * @throws StorageError when the storage cannot be opened.
 * @throws ConfigError when it or the admin listener cannot listen.
 * @throws WorkerStartError when a worker cannot start.
 */
export async function supervise(service: Service, config: Config, dev: boolean): Promise<void> {
  const output = openOutput(1);
  const count = countWorkers(config);
  const logger = await logOptions(config, () => log, { name: 'supervisor', output });
  const log: FastifyBaseLogger = Fastify({ logger }).log;
  warnOfConfiguration(log, config, count);
  const metrics = await loadMetrics(service, config);
  const storage = await openConfiguredStorage(service, config, metrics, { forWorkers: true });
  const fork = createFork(service, shareLimits(config, count), output, storage.writerAddress);
  const { workers, acceptor, gathered, rejections } = await createWorkers(service, config, {
    count,
    fork,
    log,
    metrics,
  });
  // Whatever ends this process, no worker outlives it.
  process.once('exit', () => {
    workers.kill();
  });
  const started = workers.start();
  const admin = openAdminListener(
    {
      serving: () => workers.open && acceptor.listening,
      check: async () => {
        await storage.check();
        await workers.check();
      },
      metrics: gathered && { registry: gathered },
      log,
    },
    config,
  );
  endOnSignal({
    service,
    log,
    storage,
    admin,
    stop: () =>
      stop(workers, acceptor, config).finally(() => {
        rejections.close();
      }),
  });
  const address = await Promise.all([started, admin])
    .then(() => listen(acceptor, ['HOST', config.HOST], ['PORT', config.PORT]))
    .catch(async (error: unknown) => {
      // Those that serve close what they have opened.
      await workers.end(config.limits.shutdownTime + endGrace);
      await storage.close();
      throw error;
    });
  const origin = originOf(address, config);
  reportReady(service, log, origin);
  if (dev) await greetDeveloper(service, origin, storage, config);
}

interface WorkersParts extends Pick<WorkerPoolOptions, 'count' | 'fork'> {
  readonly log: FastifyBaseLogger;
  readonly metrics: Metrics | undefined;
}

/** Creates the workers, which do not run yet, what passes connections to them, and what gathers their metrics. */
async function createWorkers(
  { metricPrefix }: Service,
  config: Config,
  { count, fork, log, metrics }: WorkersParts,
) {
  const room = connectionRoom(config.limits.poolSize);
  const workers: WorkerPool = new WorkerPool({
    count,
    maxConnections: room,
    fork,
    timeout: config.limits.workerTimeout,
    startTime: leastStartTime + config.limits.openTimeout,
    log,
    replaced: (worker) => {
      gathered?.replace(worker);
    },
    freed: () => {
      acceptor.distribute();
    },
  });
  const limits = {
    waiting: Math.max(1, room - count * descriptorsPerWorker),
    waitTime: config.limits.requestTimeout,
    total: maxConnectionsOf(config, count),
  };
  const rejections = new RejectionLog(() => log, metrics?.countRejection);
  const acceptor = new Acceptor(workers, limits, log, rejections.report);
  // Imported on demand, because it delays the start.
  const load = () => import('../observability/gathered-metrics.js');
  const gathered =
    metrics && new (await load()).GatheredMetrics(metrics.registry, () => workers.serving(), metricPrefix);
  return { workers, acceptor, gathered, rejections };
}

async function stop(workers: WorkerPool, acceptor: Acceptor, config: Config): Promise<void> {
  const { drainTime, shutdownTime } = config.limits;
  if (workers.open) {
    workers.drain();
    await drained(drainTime, () => acceptor.connections);
  }
  acceptor.close();
  await workers.end(shutdownTime + endGrace);
}

/**
 * Workers write their log themselves, and have no standard streams in common with this process, which forwards what else
 * they print, such as warnings of Node.js.
 * @param shares - The part of the shared limits for each worker.
 * @param output - The descriptor of the log.
 * @returns A function that creates the process of a worker; may throw.
 */
function createFork(
  { program }: Service,
  shares: readonly Record<string, string>[],
  output: number,
  writerAddress: string | undefined,
) {
  const printed = openLog(() => undefined, openOutput(2));
  return (slot: number, id: number) => {
    const child = fork(fileURLToPath(program), {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc', output],
      env: {
        ...process.env,
        ...shares[slot],
        [workerVariable]: String(id),
        [slotVariable]: String(slot),
        ...(writerAddress !== undefined && { [writerVariable]: writerAddress }),
      },
    });
    // A process that was never created has no streams.
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        printed.write(text);
      });
    }
    return child;
  };
}

function originOf({ address, family, port }: AddressInfo, { TLS_CERT_FILE }: Config): string {
  const scheme = TLS_CERT_FILE === undefined ? 'http' : 'https';
  return `${scheme}://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}
