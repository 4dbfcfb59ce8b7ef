// Starts what this process is: the whole service, the supervisor of its workers, or one of them.
import { readConfig, type Config } from '../config.js';
import { ContractError } from '../contract/source.js';
import { shutDown } from '../http/connection/shutdown.js';
import { readCommandLine } from './command-line.js';
import { greetDeveloper } from './developer.js';
import { workerVariable, writerVariable } from './messages.js';
import { listenForOperators, reportReady } from './operators.js';
import { buildService, describeFault, endOnSignal, listen, loadMetrics, shutdownTimes } from './service.js';

/**
 * Starts this process. If it cannot, prints why to standard error, and exits with status 1.
 * @param environment - The environment of the process, to which the options of the command line are added.
 * @param args - Without the program and the script.
 */
export async function start(environment: NodeJS.ProcessEnv, args: readonly string[]): Promise<void> {
  try {
    await startAs(environment, args);
  } catch (error) {
    console.error(error instanceof ContractError ? error.message : describeFault(error));
    process.exit(1);
  }
}

async function startAs(environment: NodeJS.ProcessEnv, args: readonly string[]): Promise<void> {
  const { help, dev, environment: given } = readCommandLine(args);
  if (help !== undefined) {
    process.stdout.write(help);
    return;
  }
  // Workers inherit the environment.
  Object.assign(environment, given);
  const config = readConfig(environment);
  // A reader that exits is no fault. Reading the property also makes a pipe or socket non-blocking, so that no warning
  // of Node.js waits for a reader that stalls.
  process.stderr.on('error', () => undefined);
  const worker = environment[workerVariable];
  if (worker !== undefined) {
    await (await import('./worker.js')).serveAsWorker(config, worker, environment[writerVariable]);
  } else if (config.WORKERS === 1) {
    await serveAlone(config, dev);
  } else {
    await (await import('./supervisor.js')).supervise(config, dev);
  }
}

async function serveAlone(config: Config, dev: boolean): Promise<void> {
  const metrics = await loadMetrics(config);
  const { app, storage } = await buildService(config, metrics, { readable: dev });
  const operations = listenForOperators(
    {
      serving: () => app.server.listening && !app.draining,
      checkStorage: () => storage.check(),
      metrics,
      log: app.log,
    },
    config,
  );
  await operations;
  await listen(app, config);
  reportReady(app.log, app.listeningOrigin);
  endOnSignal({ log: app.log, storage, operations, stop: () => shutDown(app, shutdownTimes(config)) });
  if (dev) await greetDeveloper(app.listeningOrigin, storage, config);
}
