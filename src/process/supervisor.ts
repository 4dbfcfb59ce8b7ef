// The parent of the workers, which owns the port, the writer, the operations listener and the shutdown.
import cluster from 'node:cluster';
import { fileURLToPath } from 'node:url';
import Fastify, { type FastifyBaseLogger } from 'fastify';
import type { Config } from '../config.js';
import type { GatheredMetrics } from '../observability/gathered-metrics.js';
import { openLog, openOutput } from '../observability/log-destination.js';
import type { Metrics } from '../observability/metrics.js';
import { workerVariable, writerVariable } from './messages.js';
import { greetDeveloper } from './developer.js';
import { DescriptorReserve } from './descriptor-reserve.js';
import { listenForOperators, reportReady } from './operators.js';
import {
  endOnSignal,
  loadMetrics,
  logOptions,
  openConfiguredStorage,
  shutdownTimes,
  warnOfMisspelledVariables,
} from './service.js';
import { countWorkers, shareLimits } from './shared-limits.js';
import type { WorkerProcess } from './worker-process.js';
import { Workers } from './workers.js';

/** How long to wait for workers to exit after their own time limits have passed, in ms. */
const endGrace = 5_000;

/** The descriptors that a worker takes in this process: its channel and its two streams. */
const descriptorsPerWorker = 3;
/** The further descriptors that the creation of a process takes for a moment. */
const descriptorsPerFork = 16;

/**
 * Starts the configured number of workers, and restarts those that die. Resolves when all of them serve.
 * @param dev - Whether the server runs in development mode.
 * @throws StorageError when the storage cannot be opened.
 * @throws ConfigError when the operations listener cannot listen.
 * @throws WorkerStartError when a worker cannot start.
 */
export async function supervise(config: Config, dev: boolean): Promise<void> {
  const output = openOutput(1);
  const options = await logOptions(config, () => log, { name: 'supervisor', output });
  const log: FastifyBaseLogger = Fastify({ logger: options }).log;
  warnOfMisspelledVariables(log);
  const count = countWorkers(config);
  if (count < config.WORKERS) {
    log.warn({ workers: count }, 'WORKERS is lowered, so that each worker has a part of every shared limit');
  }
  const metrics = await loadMetrics(config);
  const storage = await openConfiguredStorage(config, metrics, { forWorkers: true });
  const workers: Workers = new Workers({
    count,
    fork: createFork(shareLimits(config, count), output, storage.writerAddress),
    timeout: config.WORKER_TIMEOUT_SECONDS * 1000,
    log,
    replaced: (worker) => {
      gathered?.replace(worker);
    },
  });
  const gathered = metrics && (await gatherMetrics(metrics, workers));
  // Whatever ends this process, no worker outlives it.
  process.once('exit', () => {
    workers.kill();
  });
  const started = workers.start();
  const { drainTime, patience } = shutdownTimes(config);
  const operations = listenForOperators(
    {
      serving: () => workers.open,
      checkStorage: async () => {
        await storage.check();
        await workers.check();
      },
      metrics: gathered && { registry: gathered },
      log,
    },
    config,
  );
  endOnSignal({ log, storage, operations, stop: () => workers.end(drainTime + patience + endGrace) });
  const [origin] = await Promise.all([started, operations]);
  reportReady(log, origin);
  if (dev) await greetDeveloper(origin, storage, config);
}

/**
 * Workers write their log themselves, and have no standard streams in common with this process, which forwards what else
 * they print, such as warnings of Node.js.
 * @param shares - The part of the shared limits for each worker.
 * @param output - The descriptor of the log.
 * @returns A function that creates the process of a worker; may throw.
 */
function createFork(
  shares: readonly Record<string, string>[],
  output: number,
  writerAddress: string | undefined,
) {
  const printed = openLog(() => undefined, openOutput(2));
  cluster.setupPrimary({
    exec: fileURLToPath(new URL('../main.js', import.meta.url)),
    args: [],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc', output],
  });
  const environment = {
    [workerVariable]: 'true',
    ...(writerAddress !== undefined && { [writerVariable]: writerAddress }),
  };
  const reserve = new DescriptorReserve(descriptorsPerFork + shares.length * descriptorsPerWorker);
  return (slot: number) => {
    const worker = reserve.use(() => cluster.fork({ ...shares[slot], ...environment }));
    // A process that was never created has no streams.
    for (const stream of [worker.process.stdout, worker.process.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        printed.write(text);
      });
    }
    return worker;
  };
}

async function gatherMetrics(
  { registry }: Metrics,
  workers: Workers,
): Promise<GatheredMetrics<WorkerProcess>> {
  const { GatheredMetrics } = await import('../observability/gathered-metrics.js');
  return new GatheredMetrics(registry, () => workers.serving());
}
