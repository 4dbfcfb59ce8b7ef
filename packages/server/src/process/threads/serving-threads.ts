// The threads of a service that serve, as the main thread sees them. They share one fate: if one of them ends, all end.
import { inspect } from 'node:util';
import { MessageChannel, Worker } from 'node:worker_threads';
import { within } from '../../base/time-limit.js';
import type { Measured, Source } from '../../observability/gathered-metrics.js';
import type { Service } from '../../service/definition.js';
import { StorageError } from '../../storage/core/interface.js';
import type { Reachable } from '../development-message.js';
import type { Address } from '../listening.js';
import { ThreadStartError } from '../start-errors.js';
import {
  endMessage,
  type Answer,
  type Answers,
  type FirstMessage,
  type Question,
  type ThreadData,
} from './thread-data.js';

/** The space for new objects that Node.js 22 takes; Node.js 24 would take far more for the same speed. */
const resourceLimits = { maxYoungGenerationSizeMb: 48 };

/** All threads that serve. */
export class ServingThreads {
  readonly #threads: readonly ServingThread[];
  #phase: 'starting' | 'serving' | 'ending' = 'starting';

  /**
   * Starts the threads.
   * @param failed - Called when a thread ends by itself, once all threads serve.
   */
  constructor(
    service: Service,
    data: readonly ThreadData[],
    failed: (thread: number, reason: string) => void,
  ) {
    this.#threads = data.map((each) => new ServingThread(service, each));
    for (const { number, ended } of this.#threads)
      void ended.then((reason) => {
        if (reason !== undefined && this.#phase !== 'starting') failed(number, reason);
      });
  }

  /** Whether all listen, and none has been asked to end. */
  get serving(): boolean {
    return this.#phase === 'serving';
  }

  /** The threads whose metrics can be read. */
  get sources(): readonly Source[] {
    return this.#threads.filter(({ isReady, hasEnded }) => isReady && !hasEnded);
  }

  /**
   * Resolves when all threads can listen.
   * @throws ThreadStartError when one of them cannot start. The others still run then.
   */
  async ready(): Promise<void> {
    await Promise.all(this.#threads.map(({ ready }) => ready));
  }

  /**
   * Makes all threads listen on one address, when they are ready.
   * @returns How the service can be reached.
   * @throws ThreadStartError when one of them cannot listen. The others still run then.
   */
  async listen(at: Address): Promise<Reachable> {
    const [reachable] = await Promise.all(this.#threads.map((thread) => thread.ask('listen', at)));
    if (this.#phase === 'starting') this.#phase = 'serving';
    return reachable!;
  }

  /**
   * Resolves when all threads say that they can serve.
   * @throws StorageError when one cannot. Does not settle while one does not respond.
   */
  async check(): Promise<void> {
    for (const fault of await Promise.all(this.#threads.map((thread) => thread.ask('probe'))))
      if (fault !== undefined) throw new StorageError('unavailable', fault);
  }

  /** Resolves when the event loops of all threads have run. Does not settle while one does not. */
  respond(): Promise<unknown> {
    return Promise.all(this.#threads.map((thread) => thread.measure()));
  }

  /**
   * Ends the threads when they have drained and their open requests have ended, including threads that are still starting.
   * @param patience - Maximum time to wait, in ms.
   * @returns The numbers of the threads that are still running. Never rejects.
   */
  async end(patience: number): Promise<readonly number[]> {
    // A thread that cannot start is known by the error of `ready`.
    if (this.#phase === 'serving') this.#phase = 'ending';
    for (const thread of this.#threads) thread.end();
    await within(Promise.all(this.#threads.map(({ ended }) => ended)), patience, undefined);
    return this.#threads.flatMap(({ number, hasEnded }) => (hasEnded ? [] : [number]));
  }
}

/** A thread that serves, as the main thread sees it. */
class ServingThread implements Source {
  readonly number: number;
  /** Resolves when the thread can listen. @throws ThreadStartError if it ends before. */
  readonly ready: Promise<void>;
  /** Resolves when it has ended, with the reason if that was not in order. Never rejects. */
  readonly ended: Promise<string | undefined>;
  isReady = false;
  hasEnded = false;
  readonly #worker: Worker;
  /** Rejects when it has ended. */
  readonly #refused: Promise<never>;
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
    let fault: FirstMessage;
    this.ended = new Promise((resolve) => {
      worker.on('error', (thrown: unknown) => (error = thrown));
      worker.on('exit', (code) => {
        this.hasEnded = true;
        if (error !== undefined) resolve(inspect(error));
        else resolve(this.#isAsked && code === 0 ? undefined : `it exited with status ${code}`);
      });
    });
    this.#refused = this.ended.then((reason = 'it has ended') => {
      throw new ThreadStartError(fault ?? `${name}: thread ${number}: ${reason}`);
    });
    const started = new Promise<void>((resolve) => {
      worker.on('message', (message: FirstMessage) => {
        fault = message;
        if (fault !== undefined) return;
        this.isReady = true;
        resolve();
      });
    });
    this.ready = Promise.race([started, this.#refused]);
    // The rejections are handled even if nobody waits.
    this.ready.catch(() => undefined);
  }

  /** Asks it something. Does not settle if it does not respond. @throws ThreadStartError when it cannot do that. */
  ask<Kind extends keyof Answers>(kind: Kind, at?: Address): Promise<Answers[Kind]> {
    const { port1, port2 } = new MessageChannel();
    const answer = new Promise<Answers[Kind]>((resolve, reject) => {
      port1.once('message', (answer: Answer<Answers[Kind]>) => {
        port1.close();
        if ('fault' in answer) reject(new ThreadStartError(answer.fault));
        else resolve(answer.value);
      });
    });
    this.#worker.postMessage({ kind, at, reply: port2 } satisfies Question, [port2]);
    return Promise.race([answer, this.#refused]);
  }

  measure(): Promise<Measured> {
    return this.ask('measure');
  }

  end(): void {
    this.#isAsked = true;
    this.#worker.postMessage(endMessage);
  }
}
