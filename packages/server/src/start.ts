// The functions that the entry points of a service call. This loads almost nothing before signals are received.
import { isMainThread } from 'node:worker_threads';
import type { Service } from './service/definition.js';
import { receiveSignals } from './process/ending.js';

/** Imports the module of a service, which loads what the service needs. */
export type LoadService = () => Promise<{ readonly service: Service }>;

/**
 * Starts the server of a service with the environment and the arguments of this process. If it cannot, prints why to
 * standard error, and exits with status 1.
 * @example
 * // main.ts; nothing else is imported before signals are received.
 * await start(() => import('./service.js'));
 */
export async function start(load: LoadService): Promise<void> {
  receiveSignals();
  const [{ startProcess }, { service }] = await Promise.all([import('./process/start.js'), load()]);
  const args = process.argv.slice(2);
  // Most processes have no options, and threads need none: they start faster without their parser.
  const options =
    args.length === 0 || !isMainThread
      ? {}
      : (await import('./process/commands/command-line.js')).readCommandLine(service, args);
  await startProcess(service, process.env, options);
}

/**
 * Runs the command of a service with the environment and the arguments of this process. If it fails, prints why to
 * standard error, and sets the exit status to 1.
 * @example
 * // cli.ts
 * await runCommand(() => import('./service.js'));
 */
export async function runCommand(load: LoadService): Promise<void> {
  const [{ runServiceCommand }, { service }] = await Promise.all([
    import('./process/commands/commands.js'),
    load(),
  ]);
  await runServiceCommand(service, process.env, process.argv);
}
