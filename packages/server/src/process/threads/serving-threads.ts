// Another thread of a service, as the main one sees it. They share one fate: if one of them ends, all end.
import { inspect } from 'node:util';
import { Worker } from 'node:worker_threads';
import type { Service } from '../../service/definition.js';
import { ThreadStartError } from '../start-errors.js';
import type { Message, ThreadData } from './serving-thread.js';

/** The space for new objects that Node.js 22 takes; Node.js 24 would take far more for the same speed. */
const resourceLimits = { maxYoungGenerationSizeMb: 48 };

/** A thread that serves besides the main one. */
export class ServingThread {
  readonly number: number;
  /** Resolves when it has ended, with the reason if that was not in order. Never rejects. */
  readonly ended: Promise<string | undefined>;
  readonly #worker: Worker;
  /** The answer that it owes: it is asked once at a time, so that questions to a thread that hangs do not pile up. */
  #answer: Promise<object[]> | undefined;
  /** Whether it has been asked to end. */
  #isAsked = false;

  constructor({ program }: Service, data: ThreadData) {
    const transferList = data.share === undefined ? [] : [data.share.port];
    const worker = new Worker(program, { workerData: data, transferList, resourceLimits });
    this.number = data.thread;
    this.#worker = worker;
    let error: unknown;
    this.ended = new Promise((resolve) => {
      worker.on('error', (thrown: unknown) => (error = thrown));
      worker.on('exit', (code) => {
        if (error !== undefined) resolve(inspect(error));
        else resolve(this.#isAsked && code === 0 ? undefined : `it exited with status ${code}`);
      });
    });
  }

  /** Resolves when the thread serves. @throws ThreadStartError if it ends before. */
  async start({ name }: Service): Promise<void> {
    const fault = await Promise.race([
      this.#message<string | undefined>(),
      this.ended.then((reason = 'it has ended') => `${name}: thread ${this.number}: ${reason}`),
    ]);
    if (fault !== undefined) throw new ThreadStartError(fault);
  }

  /** Returns its metrics. Does not settle while it does not respond. */
  measure(): Promise<object[]> {
    if (this.#answer === undefined) {
      this.#worker.postMessage('measure' satisfies Message);
      this.#answer = this.#message<object[]>().finally(() => (this.#answer = undefined));
    }
    return this.#answer;
  }

  /** Ends it when its open requests have ended, also while it starts. Resolves when it has ended. */
  async end(): Promise<void> {
    this.#isAsked = true;
    this.#worker.postMessage('end' satisfies Message);
    await this.ended;
  }

  #message<T>(): Promise<T> {
    return new Promise((resolve) => {
      this.#worker.once('message', resolve);
    });
  }
}
