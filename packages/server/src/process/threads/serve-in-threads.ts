// Serves with several threads. The main thread owns everything that exists once: the store's lock and writer, the admin
// listener, the signals, and the message for developers.
import { randomBytes } from 'node:crypto';
import type { Config } from '../config.js';
import type { Service } from '../../service/definition.js';
import { openOutput } from '../../observability/log.js';
import { drained } from '../../http/connection/shutdown.js';
import { countConnections, createConnectionCount } from '../../http/connection/shared-connections.js';
import type { OpenStorage } from '../../storage/open.js';
import { greetDeveloper } from '../development-message.js';
import { findAddress, openAdminListener, reportReady } from '../listening.js';
import {
  loadMetrics,
  maxConnectionsOf,
  openConfiguredStorage,
  openServiceLog,
  readTls,
  warnOfConfiguration,
} from '../configured-service.js';
import { ServingThreads } from './serving-threads.js';
import { endAtOnce, endOnSignal } from '../ending.js';
import { feedWatchdog } from '../systemd.js';
import type { ThreadData } from './thread-data.js';

/** The time to wait for threads after their own time limits have passed, in ms. */
const endGrace = 5_000;
/** The length of the keys of TLS session tickets, in bytes. */
const ticketKeysLength = 48;

/**
 * Starts the configured number of threads. Resolves when all of them serve.
 * @param dev - Whether the server runs in development mode.
 * @throws StorageError when the storage cannot be opened.
 * @throws ConfigError when it or the admin listener cannot listen.
 * @throws ThreadStartError when a thread cannot start.
 */
export async function serveInThreads(service: Service, config: Config, dev: boolean): Promise<void> {
  const { drainTime, shutdownTime } = config.limits;
  const output = openOutput(1);
  const count = config.WORKERS;
  const log = await openServiceLog(config, { thread: 'main', output });
  warnOfConfiguration(log, config);
  const metrics = await loadMetrics(service, config);
  const storage = await openConfiguredStorage(service, config, metrics, log, dev);
  const connections = createConnectionCount();
  const threads = new ServingThreads({
    service,
    data: dataOfThreads(config, count, storage, { output, connections }),
    failed: (thread, reason) => {
      log.fatal({ thread, reason }, 'a thread has ended: the service ends');
      fail('thread');
    },
  });
  // Imported on demand, because it delays the start.
  const gathered =
    metrics &&
    (await import('../../observability/gathered-metrics.js')).gatherMetrics(
      metrics.registry,
      () => threads.sources,
      service.metricPrefix,
    );
  const admin = openAdminListener(
    {
      serving: () => threads.serving,
      check: async () => {
        await storage.check();
        await threads.check();
      },
      metrics: gathered && { registry: gathered },
      log,
    },
    config,
  );
  const endThreads = async () => {
    const left = await threads.end(shutdownTime + endGrace);
    if (left.length === 0) return;
    log.fatal({ threads: left }, 'threads did not end within SHUTDOWN_SECONDS: the process ends at once');
    endAtOnce();
  };
  const fail = endOnSignal({
    service,
    log,
    storage,
    admin,
    stop: async () => {
      threads.drain();
      await drained(drainTime, () => countConnections(connections));
      await endThreads();
    },
  });
  process.once('uncaughtException', (error) => {
    log.fatal({ err: error }, 'the main thread has failed: the service ends');
    process.on('uncaughtException', endAtOnce);
    fail('error');
  });
  const reachable = await Promise.all([threads.ready(), admin])
    .then(() => findAddress(config))
    .then((address) => threads.listen(address))
    .catch(async (error: unknown) => {
      // The serving threads close what they have opened.
      await endThreads();
      await storage.close();
      throw error;
    });
  reportReady(service, log, config, storage, reachable.origin);
  feedWatchdog(log, () => threads.respond());
  if (dev) await greetDeveloper(service, reachable, storage, config);
}

/** Returns the worker data of each thread. */
function dataOfThreads(
  config: Config,
  count: number,
  storage: OpenStorage,
  common: Pick<ThreadData, 'output' | 'connections'>,
): readonly ThreadData[] {
  const read = readTls(config);
  const tls = read && { ...read, ticketKeys: randomBytes(ticketKeysLength) };
  const maxConnections = maxConnectionsOf(config, count);
  return Array.from({ length: count }, (_, i) => ({
    ...common,
    thread: i + 1,
    config: { ...config, limits: { ...config.limits, maxConnections } },
    tls,
    share: storage.share?.(),
  }));
}
