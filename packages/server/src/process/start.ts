// Starts the service: all of it in this thread, or in several threads, or the part of it that this thread serves.
import { shutDown } from '../http/connection/shutdown.js';
import type { Service } from '../service/definition.js';
import type { ServerOptions } from './commands/command-line.js';
import { readConfig, type Config } from './config.js';
import {
  buildService,
  checkBoth,
  closeBoth,
  loadMetrics,
  reportReady,
  warnOfConfiguration,
} from './configured-service.js';
import { interrupted, shutDownOnEnd } from './ending.js';
import { listenAlone, openAdminListener } from './listening.js';
import { describeFault, statusOf } from './start-errors.js';
import { feedWatchdog } from './systemd.js';
import { threadData } from './threads/thread-data.js';

/**
 * Starts this process, or this thread of it. If it cannot, prints why to standard error, and exits with a status that is not 0.
 * @param service - The service to run.
 * @param environment - The environment of the process, to which the options of the command line are added.
 */
export async function startProcess(
  service: Service,
  environment: NodeJS.ProcessEnv,
  options: ServerOptions,
): Promise<void> {
  try {
    await startAs(service, environment, options);
  } catch (error) {
    if (interrupted.aborted) process.exit();
    console.error(describeFault(error, service));
    process.exit(statusOf(error));
  }
}

async function startAs(
  service: Service,
  environment: NodeJS.ProcessEnv,
  { host, port, database, dev = false }: ServerOptions,
): Promise<void> {
  if (threadData !== undefined) {
    await (await import('./threads/serving-thread.js')).serveInThread(service, threadData);
    return;
  }
  Object.assign(
    environment,
    host !== undefined && { HOST: host },
    port !== undefined && { PORT: port },
    database !== undefined && { DATABASE_URL: database },
  );
  const config = readConfig(environment, service);
  // The process goes on when the reader of its standard error exits. Reading the property also makes a pipe or socket
  // non-blocking, so that a warning of Node.js does not wait for a reader that stalls.
  process.stderr.on('error', () => undefined);
  if (config.WORKERS === 1) await serveAlone(service, config, dev);
  else await (await import('./threads/serve-in-threads.js')).serveInThreads(service, config, dev);
}

async function serveAlone(service: Service, config: Config, dev: boolean): Promise<void> {
  const metrics = await loadMetrics(service, config);
  const greet = dev ? (await import('./development-message.js')).greetDeveloper : undefined;
  const built = await buildService(service, config, metrics, { dev });
  const { app, storage } = built;
  const { log } = app;
  try {
    warnOfConfiguration(log, config);
    const serving = () => app.server.listening && !app.draining;
    const check = () => checkBoth(built);
    const admin = openAdminListener({ serving, check, metrics: metrics?.registry, log }, config);
    await admin;
    await listenAlone(app, config);
    interrupted.throwIfAborted();
    reportReady(service, log, config, storage, app.listeningOrigin);
    // The timer alone shows that the event loop runs.
    feedWatchdog(log, () => Promise.resolve());
    shutDownOnEnd({ service, log, storage, admin, stop: () => shutDown(app, config.limits) });
    const { listeningOrigin: origin, tokenPlace } = app;
    await greet?.(service, { origin, tokenPlace }, storage, config);
  } catch (error) {
    await closeBoth(built, config.limits.shutdownTime);
    throw error;
  }
}
