// Serves with several threads. The main thread owns everything that exists once: the store's lock and writer, the admin
// listener, the signals, and the message for developers.
import type { Service } from '../../service/definition.js';
import type { Config } from '../config.js';
import {
  loadMetrics,
  openConfiguredStorage,
  openServiceLog,
  reportReady,
  warnOfConfiguration,
} from '../configured-service.js';
import { greetDeveloper } from '../development-message.js';
import { endAtOnce, fail, interrupted, shutDownOnEnd } from '../ending.js';
import { findAddress, openAdminListener } from '../listening.js';
import { feedWatchdog } from '../systemd.js';
import { readTls } from '../tls.js';
import { ServingThreads } from './serving-threads.js';

/** The time to wait for threads after their own time limits have passed, in ms. */
const endGrace = 5_000;

/**
 * Starts the configured number of threads. Resolves when all of them serve.
 * @param dev - Whether the server runs in development mode.
 * @throws StorageError when the storage cannot be opened.
 * @throws ConfigError when it or the admin listener cannot listen.
 * @throws ThreadStartError when a thread cannot start.
 */
export async function serveInThreads(service: Service, config: Config, dev: boolean): Promise<void> {
  const log = await openServiceLog(config, { thread: 'main' });
  warnOfConfiguration(log, config);
  const metrics = await loadMetrics(service, config);
  const storage = await openConfiguredStorage(service, config, log, metrics, { dev });
  const tls = readTls(config);
  const data = Array.from({ length: config.WORKERS }, (_, i) => {
    return { thread: i + 1, config, tls, share: storage.share?.() };
  });
  const threads = new ServingThreads(service, data, (thread, reason) => {
    log.fatal({ thread, reason }, 'a thread has ended: the service ends');
    fail('thread');
  });
  const serving = () => threads.serving;
  const check = async () => {
    await storage.check();
    await threads.check();
  };
  // Imported on demand, because it delays the start.
  const gathered =
    metrics &&
    (await import('../../observability/gathered-metrics.js')).gatherMetrics(
      metrics.registry,
      () => threads.sources,
      service.metricPrefix,
    );
  const admin = openAdminListener({ serving, check, log, metrics: gathered }, config);
  const { drainTime, shutdownTime } = config.limits;
  const stop = async () => {
    const left = await threads.end(drainTime + shutdownTime + endGrace);
    if (left.length === 0) return;
    log.fatal({ threads: left }, 'threads did not end within SHUTDOWN_SECONDS: the process ends at once');
    endAtOnce();
  };
  shutDownOnEnd({ service, log, storage, admin, stop });
  try {
    await Promise.all([threads.ready(), admin]);
    const reachable = await threads.listen(await findAddress(config));
    interrupted.throwIfAborted();
    reportReady(service, log, config, storage, reachable.origin);
    feedWatchdog(log, () => threads.respond());
    if (dev) await greetDeveloper(service, reachable, storage, config);
  } catch (error) {
    // The process closes everything, and exits.
    if (interrupted.aborted) return;
    // The serving threads close what they have opened.
    await stop();
    await storage.close();
    throw error;
  }
}
