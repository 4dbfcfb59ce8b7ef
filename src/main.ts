// Entry point of the server: a single process, a supervisor, or one of its workers.
import { readConfig, type Config } from './config.js';
import { shutDown } from './http/connection/shutdown.js';
import { readCommandLine } from './process/command-line.js';
import { greetDeveloper } from './process/developer.js';
import { writerVariable } from './process/messages.js';
import { listenForOperators, reportReady } from './process/operators.js';
import {
  buildService,
  describeFault,
  endOnSignal,
  listen,
  loadMetrics,
  shutdownTimes,
} from './process/service.js';

try {
  await main();
} catch (error) {
  console.error(describeFault(error));
  process.exit(1);
}

async function main(): Promise<void> {
  const { help, dev, environment } = readCommandLine(process.argv.slice(2));
  if (help !== undefined) {
    process.stdout.write(help);
    return;
  }
  // Workers inherit the environment.
  Object.assign(process.env, environment);
  const config = readConfig(process.env);
  if (config.WORKERS === 1) {
    await serveAlone(config, dev);
    return;
  }
  // The supervisor passes WORKERS on to its workers, so they get here too.
  const { default: cluster } = await import('node:cluster');
  if (cluster.worker === undefined) {
    await (await import('./process/supervisor.js')).supervise(config, dev);
  } else {
    const { serveAsWorker } = await import('./process/worker.js');
    await serveAsWorker(config, cluster.worker, process.env[writerVariable]);
  }
}

async function serveAlone(config: Config, dev: boolean): Promise<void> {
  const metrics = await loadMetrics(config);
  const { app, storage } = await buildService(config, metrics, { readable: dev });
  const operations = await listenForOperators(
    {
      serving: () => app.server.listening && !app.draining,
      checkStorage: () => storage.check(),
      metrics,
      log: app.log,
    },
    config,
  );
  await listen(app, config);
  reportReady(app.log, app.listeningOrigin);
  endOnSignal({ log: app.log, storage, operations, stop: () => shutDown(app, shutdownTimes(config)) });
  if (dev) await greetDeveloper(app.listeningOrigin, storage, config);
}
