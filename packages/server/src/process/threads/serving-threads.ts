// The threads of a service that serve, as the main thread sees them. They share one fate: if one of them ends or does not
// respond, all end.
import { MessageChannel, Worker } from 'node:worker_threads';
import type { Measured, Source } from '../../observability/gathered-metrics.js';
import type { Service } from '../../service/definition.js';
import { StorageError } from '../../storage/core/interface.js';
import { within } from '../../base/time-limit.js';
import type { Reachable } from '../development-message.js';
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

/** Options of the threads. */
interface ThreadsOptions {
  /** The service, whose program each thread runs. */
  readonly service: Service;
  /** The worker data of each thread. */
  readonly data: readonly ThreadData[];
  /** Called when a thread ends by itself, once all threads serve. */
  readonly failed: (thread: number, reason: string) => void;
}

/** All threads that serve. */
export class ServingThreads {
  readonly #options: ThreadsOptions;
  readonly #threads: readonly ServingThread[];
  #phase: 'starting' | 'serving' | 'ending' = 'starting';
  #hasServed = false;
  #refuse!: (error: ThreadStartError) => void;
  readonly #refused = new Promise<never>((_, reject) => (this.#refuse = reject));

  /** Starts the threads. */
  constructor(options: ThreadsOptions) {
    this.#options = options;
    // The rejection is handled even if nobody waits for it.
    this.#refused.catch(() => undefined);
    const { service } = options;
    this.#threads = options.data.map((data) => {
      const transferList = data.share === undefined ? [] : [data.share.port];
      const worker = new Worker(service.program, {
        workerData: data,
        transferList,
        stdout: true,
        resourceLimits,
      });
      const thread = new ServingThread(data.thread, worker);
      void thread.ended.then((fault) => {
        if (fault !== undefined) this.#fail(thread, fault);
      });
      return thread;
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
   * Resolves when all threads can listen. Stays pending after `end`.
   * @throws ThreadStartError when one of them cannot start. The others still run then.
   */
  ready(): Promise<unknown> {
    return Promise.race([Promise.all(this.#threads.map(({ ready }) => ready)), this.#refused]);
  }

  /**
   * Makes all threads listen on one address, when they are ready.
   * @returns How the service can be reached. Stays pending after `end`.
   * @throws ThreadStartError when one of them cannot listen. The others still run then.
   */
  async listen(at: NonNullable<Question['at']>): Promise<Reachable> {
    const listening = Promise.all(this.#threads.map((thread) => thread.ask('listen', at)));
    const [reachable] = await Promise.race([listening, this.#refused]);
    if (this.#phase !== 'starting') return this.#refused;
    this.#phase = 'serving';
    this.#hasServed = true;
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
    return Promise.all(this.#threads.map((thread) => thread.ask('check')));
  }

  /** Makes all threads ask their clients to reconnect. */
  drain(): void {
    this.#phase = 'ending';
    for (const thread of this.#threads) void thread.ask('drain');
  }

  /**
   * Ends the threads when their open requests have ended, including threads that are still starting.
   * @param patience - Maximum time to wait, in ms.
   * @returns The numbers of the threads that are still running. Never rejects.
   */
  async end(patience: number): Promise<readonly number[]> {
    this.#phase = 'ending';
    for (const thread of this.#threads) thread.end();
    await within(Promise.all(this.#threads.map(({ ended }) => ended)), patience, undefined);
    return this.#threads.flatMap(({ number, hasEnded }) => (hasEnded ? [] : [number]));
  }

  #fail({ number, failure }: ServingThread, reason: string): void {
    this.#phase = 'ending';
    const { service, failed } = this.#options;
    if (this.#hasServed) failed(number, reason);
    else this.#refuse(failure ?? new ThreadStartError(`${service.name}: thread ${number}: ${reason}`));
  }
}

/** A thread that serves, as the main thread sees it. */
class ServingThread implements Source {
  readonly number: number;
  /** Resolves when the thread can listen. Stays pending if it ends before. */
  readonly ready: Promise<void>;
  /** Resolves when it has ended, with the reason if that was not in order. Never rejects. */
  readonly ended: Promise<string | undefined>;
  isReady = false;
  hasEnded = false;
  /** The reason why it cannot serve, if it has reported one. */
  failure: ThreadStartError | undefined;
  readonly #worker: Worker;
  #readied!: () => void;
  /** Whether it has been asked to end. */
  #isAsked = false;

  constructor(number: number, worker: Worker) {
    this.number = number;
    this.#worker = worker;
    this.ready = new Promise((resolve) => (this.#readied = resolve));
    let error: Error | undefined;
    this.ended = new Promise((resolve) => {
      worker.on('error', (thrown: unknown) => (error = toError(thrown)));
      worker.on('exit', (code) => {
        this.hasEnded = true;
        if (error === undefined && this.#isAsked && code === 0) resolve(undefined);
        else resolve(error === undefined ? `it exited with status ${code}` : (error.stack ?? error.message));
      });
    });
    worker.on('message', (fault: FirstMessage) => {
      if (fault === undefined) {
        this.isReady = true;
        this.#readied();
      } else this.failure = new ThreadStartError(fault);
    });
    // Standard output is for the log alone.
    worker.stdout.on('data', (chunk: Buffer) => process.stderr.write(chunk));
  }

  /** Asks it something. Does not settle if it does not respond. @throws ThreadStartError when it cannot do that. */
  ask<Kind extends keyof Answers>(kind: Kind, at?: Question['at']): Promise<Answers[Kind]> {
    const { port1, port2 } = new MessageChannel();
    return new Promise((resolve, reject) => {
      port1.once('message', (answer: Answer<Answers[Kind]>) => {
        port1.close();
        if ('fault' in answer) reject(new ThreadStartError(answer.fault));
        else resolve(answer.value);
      });
      this.#worker.postMessage({ kind, at, reply: port2 } satisfies Question, [port2]);
    });
  }

  measure(): Promise<Measured> {
    return this.ask('measure');
  }

  end(): void {
    this.#isAsked = true;
    this.#worker.postMessage(endMessage);
  }
}

function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
