// The other threads of a service, as the main one sees them. They share one fate: if one of them ends, all end.
import { inspect } from 'node:util';
import { MessageChannel, Worker } from 'node:worker_threads';
import { within } from '../../base/time-limit.js';
import type { Service } from '../../service/definition.js';
import type { OpenStorage } from '../../storage/open.js';
import type { Config } from '../config.js';
import { ThreadStartError } from '../start-errors.js';
import type { FirstMessage, Measured, Message, ThreadData } from './serving-thread.js';

/** The space for new objects that Node.js 22 takes; Node.js 24 would take far more for the same speed. */
const resourceLimits = { maxYoungGenerationSizeMb: 48 };

/** The threads that serve, besides the main one. */
export class ServingThreads {
  readonly #service: Service;
  readonly #failed: (thread: number, reason: string) => void;
  #threads: readonly ServingThread[] = [];

  /** @param failed - Called when a thread ends by itself, once all serve. */
  constructor(service: Service, failed: (thread: number, reason: string) => void) {
    this.#service = service;
    this.#failed = failed;
  }

  get all(): readonly ServingThread[] {
    return this.#threads;
  }

  /**
   * Starts the threads. Resolves when all of them serve.
   * @param share - Returns what each thread needs to open the store.
   * @throws ThreadStartError when one of them cannot. The others still run then.
   */
  async start(
    config: Config,
    { share, ...data }: Pick<ThreadData, 'tls' | 'address'> & { share: OpenStorage['share'] },
  ): Promise<void> {
    this.#threads = Array.from({ length: config.WORKERS - 1 }, (_, i) => {
      return new ServingThread(this.#service, { ...data, config, thread: i + 2, share: share?.() });
    });
    await Promise.all(this.#threads.map(({ started }) => started));
    for (const { number, ended } of this.#threads)
      void ended.then((reason) => {
        if (reason !== undefined) this.#failed(number, reason);
      });
  }

  /** Returns the metrics of all threads. Does not settle while one does not respond. */
  measure(): Promise<Measured[]> {
    return Promise.all(this.#threads.map((thread) => thread.measure()));
  }

  /**
   * Ends the threads when they have drained and their open requests have ended, including threads that are still starting.
   * @param patience - Maximum time to wait, in ms.
   * @returns Whether all have ended. Never rejects.
   */
  end(patience: number): Promise<boolean> {
    for (const thread of this.#threads) thread.end();
    const ended = Promise.all(this.#threads.map(({ ended }) => ended)).then(() => true);
    return within(ended, patience, false);
  }
}

/** A thread that serves, as the main thread sees it. */
class ServingThread {
  readonly number: number;
  /** Resolves when the thread serves. @throws ThreadStartError if it ends before. */
  readonly started: Promise<void>;
  /** Resolves when it has ended, with the reason if that was not in order. Never rejects. */
  readonly ended: Promise<string | undefined>;
  readonly #worker: Worker;
  /** Whether it has been asked to end. */
  #isAsked = false;

  /** Starts it. @param service - The service, whose program it runs. */
  constructor({ name, program }: Service, data: ThreadData) {
    const { thread: number, share } = data;
    const transferList = share === undefined ? [] : [share.port];
    const worker = new Worker(program, { workerData: data, transferList, resourceLimits });
    this.number = number;
    this.#worker = worker;
    let error: unknown;
    this.ended = new Promise((resolve) => {
      worker.on('error', (thrown: unknown) => (error = thrown));
      worker.on('exit', (code) => {
        if (error !== undefined) resolve(inspect(error));
        else resolve(this.#isAsked && code === 0 ? undefined : `it exited with status ${code}`);
      });
    });
    this.started = new Promise((resolve, reject) => {
      worker.on('message', (fault: FirstMessage) => {
        if (fault === undefined) resolve();
        else reject(new ThreadStartError(fault));
      });
      void this.ended.then((reason = 'it has ended') => {
        reject(new ThreadStartError(`${name}: thread ${number}: ${reason}`));
      });
    });
    // The rejection is handled even if nobody waits any more.
    this.started.catch(() => undefined);
  }

  measure(): Promise<Measured> {
    const { port1, port2 } = new MessageChannel();
    this.#worker.postMessage(port2 satisfies Message, [port2]);
    return new Promise((resolve) => {
      port1.once('message', (measured: Measured) => {
        port1.close();
        resolve(measured);
      });
    });
  }

  end(): void {
    this.#isAsked = true;
    this.#worker.postMessage('end' satisfies Message);
  }
}
