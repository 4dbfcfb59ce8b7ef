// A thread that serves besides the main one: it listens on the address that all have, and reads the store itself.
import { parentPort, workerData } from 'node:worker_threads';
import type { Service } from '../../service/definition.js';
import type { StorageShare } from '../../storage/open.js';
import type { Config } from '../config.js';
import { buildService, shutDown } from '../configured-service.js';
import { end, interrupted, onEnd } from '../ending.js';
import { listenOn, type Address } from '../listening.js';
import { describeFault } from '../start-errors.js';

/** The worker data of a thread that serves. */
export interface ThreadData {
  /** Its number, from 2: the main thread is the first one. */
  readonly thread: number;
  readonly config: Config;
  readonly share: StorageShare;
  readonly address: Address;
}

/** A message to a thread: it is to end, also while it starts; or to send its metrics. */
export type Message = 'end' | 'measure';

/** A message of a thread: first, the reason why it cannot serve, or undefined; then its metrics, whenever it is asked. */
export type Answer = string | undefined | object[];

/** Serves until the main thread ends this one. Tells the main thread if it cannot start. */
export async function serveInThread(service: Service): Promise<void> {
  const { config, address, ...data } = workerData as ThreadData;
  const port = parentPort!;
  port.on('message', (message: Message) => {
    if (message === 'end') end(message);
  });
  try {
    const { app, storage, metrics } = await buildService(service, config, data);
    onEnd(async () => {
      await shutDown(app, config.limits);
      await storage.close();
      // This ends the thread alone. It does not wait for what a service has left open.
      process.exit(0);
    });
    const measure = async () => {
      port.postMessage(((await metrics?.registry.getMetricsAsJSON()) ?? []) satisfies Answer);
    };
    if (interrupted.aborted) return;
    await listenOn(address, (options) => app.listen(options));
    port.on('message', (message: Message) => {
      if (message === 'measure') void measure();
    });
    port.postMessage(undefined satisfies Answer);
  } catch (error) {
    if (interrupted.aborted) process.exit(0);
    port.postMessage(describeFault(error, service) satisfies Answer);
    process.exit(1);
  }
}
