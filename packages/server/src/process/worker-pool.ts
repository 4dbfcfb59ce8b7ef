// Keeps a number of worker processes running: starts them, replaces those that end, and ends them all.
import type { FastifyBaseLogger } from 'fastify';
import { StorageError } from '../storage/interface.js';
import { WorkerStartError } from './start-errors.js';
import { SupervisedWorker, type Child, type WorkerEnd } from './supervised-worker.js';

/** The pause before the first restart of a worker, in ms. It doubles with each further restart. */
const firstPause = 100;
/** The maximum pause before a restart, in ms. */
const maxPause = 30_000;
/** A worker that has run for longer than this, in ms, is restarted after `firstPause`. */
const steadyTime = 60_000;
/**
 * The number of health checks of a worker in its time limit. The supervisor counts checks without a response rather
 * than time, so that it does not kill workers after the whole machine has paused.
 */
const checks = 5;
/** The least time that a worker has to start, in ms: even a slow machine loads its modules in this time. */
export const leastStartTime = 10_000;
/** How often workers are checked that are never killed, in ms: they notice then that a connection did not reach them. */
const idleCheckInterval = 5_000;

/** How to run the workers. */
export interface WorkerPoolOptions {
  /** The number of workers. */
  readonly count: number;
  /** The maximum number of connections of a worker. */
  readonly maxConnections: number;
  /**
   * Creates the process of a worker; may throw.
   * @param slot - Which of the workers it is, from 0 to `count` - 1. Two processes never have one slot at a time.
   * @param id - Which of all processes it is, from 1.
   */
  readonly fork: (slot: number, id: number) => Child;
  /** How long a worker may be unresponsive before it is killed and replaced, in ms; with 0, none is. */
  readonly timeout: number;
  /** How long a worker may take to start in any case, in ms. */
  readonly startTime?: number;
  readonly log: Pick<FastifyBaseLogger, 'info' | 'warn' | 'error'>;
  /** Called when another worker is to take the place of one that has ended. */
  readonly replaced?: (worker: SupervisedWorker) => void;
  /** Called when a worker may be able to take another connection. */
  readonly freed?: () => void;
  /** A monotonic clock, in ms. */
  readonly now?: () => number;
}

/** The workers of a service. */
export class WorkerPool {
  readonly #options: Required<WorkerPoolOptions>;
  readonly #workers = new Set<SupervisedWorker>();
  #phase: 'starting' | 'serving' | 'ending' = 'starting';
  #created = 0;
  #checking: NodeJS.Timeout | undefined;
  /** Whether workers start one after another: since a start was overdue, until all serve. They would delay each other. */
  #oneByOne = false;
  /** The starts that wait for another one. */
  readonly #waiting: (() => void)[] = [];
  #started!: { resolve: () => void; reject: (error: Error) => void };

  constructor(options: WorkerPoolOptions) {
    this.#options = {
      now: () => performance.now(),
      replaced: () => undefined,
      freed: () => undefined,
      startTime: leastStartTime,
      ...options,
    };
  }

  /**
   * Starts the workers, and from then on replaces those that end.
   * @returns When all of them serve.
   * @throws WorkerStartError when one cannot be created, or exits before all serve. The others still run then.
   */
  start(): Promise<void> {
    const { count, timeout, log } = this.#options;
    const started = new Promise<void>((resolve, reject) => (this.#started = { resolve, reject }));
    for (let slot = 0; slot < count; slot++) this.#run(slot, firstPause, 1);
    const check = () => {
      for (const worker of this.#workers) {
        if (worker.check()) log.error({ worker: worker.id }, 'a worker does not respond, and is killed');
      }
    };
    this.#checking = setInterval(check, timeout > 0 ? timeout / checks : idleCheckInterval);
    return started;
  }

  /** Whether the service is open: all workers have served, and it is not ending. */
  get open(): boolean {
    return this.#phase === 'serving';
  }

  /** The workers that serve. */
  serving(): readonly SupervisedWorker[] {
    return [...this.#workers].filter(({ state }) => state === 'serving');
  }

  /** The number of connections of all workers. */
  get connections(): number {
    let sum = 0;
    for (const worker of this.#workers) sum += worker.connections;
    return sum;
  }

  /**
   * The worker for the next connection: of those that are free, the one whose last new connection is the oldest. Their
   * numbers of connections decide nothing: a worker reports late what it has closed, and would get too few.
   * @param last - Whether the connection is one of the last, which workers need not be free for.
   * @returns Undefined if none is free.
   */
  next(last = false): SupervisedWorker | undefined {
    for (const worker of this.#workers) {
      if (last ? worker.state !== 'serving' : !worker.isFree) continue;
      if (worker.connections >= this.#options.maxConnections) continue;
      this.#workers.delete(worker);
      this.#workers.add(worker);
      return worker;
    }
    return undefined;
  }

  /**
   * Resolves when at least half of the workers serve and say that they can: enough while the others restart.
   * @throws StorageError when too few of them can. Does not settle while too few respond.
   */
  async check(): Promise<void> {
    const needed = Math.ceil(this.#options.count / 2);
    const serving = this.serving();
    let able = 0;
    let unable = 0;
    await new Promise<void>((resolve, reject) => {
      const refuse = (reason: string) => {
        reject(new StorageError('unavailable', reason));
      };
      if (serving.length < needed) refuse('too few workers serve');
      for (const worker of serving) {
        void worker.probe().then((fault) => {
          if (fault === undefined) able++;
          else unable++;
          if (able >= needed) resolve();
          else if (fault !== undefined && serving.length - unable < needed) refuse(fault);
        });
      }
    });
  }

  /** Makes all ask their clients to reconnect, and replaces none from now on. */
  drain(): void {
    this.#phase = 'ending';
    for (const worker of this.#workers) worker.drain();
  }

  /**
   * Ends the workers with their open requests, and those that do not serve yet.
   * @param patience - How long to wait before all that are left are killed, in ms.
   * @returns When none of them runs. Never rejects.
   */
  async end(patience: number): Promise<void> {
    this.#phase = 'ending';
    clearInterval(this.#checking);
    const deadline = setTimeout(() => {
      this.kill();
    }, patience);
    const ends = [...this.#workers].map((worker) => {
      worker.end();
      return worker.ended;
    });
    await Promise.all(ends);
    clearTimeout(deadline);
  }

  /** Kills all workers, and replaces none. */
  kill(): void {
    this.#phase = 'ending';
    clearInterval(this.#checking);
    for (const worker of this.#workers) worker.kill();
  }

  /**
   * @param pause - The pause before it is replaced if it ends soon, in ms.
   * @param factor - How many times the usual time it has to start. It doubles with each start that takes longer, so that
   *   even a very slow machine gets its workers, and is halved when one was in time.
   */
  #run(slot: number, pause: number, factor: number): void {
    if (this.#phase === 'ending') return;
    if (this.#oneByOne && this.#isStarting) {
      this.#waiting.push(() => {
        this.#run(slot, pause, factor);
      });
      return;
    }
    const { fork, timeout, startTime, now, freed } = this.#options;
    const patience =
      timeout > 0
        ? {
            starting: Math.ceil((checks * Math.max(timeout, startTime)) / timeout) * factor,
            serving: checks,
          }
        : { starting: Infinity, serving: Infinity };
    const since = now();
    const id = ++this.#created;
    const changed = (worker: SupervisedWorker) => {
      this.#report(worker);
    };
    const worker = new SupervisedWorker(id, () => fork(slot, id), patience, { changed, freed });
    this.#workers.add(worker);
    void worker.ended.then((end) => {
      this.#workers.delete(worker);
      const isLate = end.overdue === 'starting';
      if (isLate) this.#oneByOne = true;
      this.#replace(worker, end, {
        slot,
        pause: now() - since > steadyTime ? firstPause : pause,
        factor: isLate ? 2 * factor : Math.max(1, factor / 2),
      });
      this.#runNext();
    });
  }

  get #isStarting(): boolean {
    return [...this.#workers].some(({ state }) => state === 'starting');
  }

  /** Starts the worker that has waited longest, if none starts now. */
  #runNext(): void {
    if (!this.#isStarting) this.#waiting.shift()?.();
  }

  #report(worker: SupervisedWorker): void {
    const { id, pid, state, reason } = worker;
    const { log, count, freed } = this.#options;
    if (state !== 'serving') {
      log.warn({ worker: id, reason }, 'a worker leaves service');
      return;
    }
    log.info({ worker: id, workerPid: pid }, 'a worker serves');
    if (this.#phase === 'ending') worker.drain();
    freed();
    this.#runNext();
    if (this.serving().length < count) return;
    this.#oneByOne = false;
    if (this.#phase !== 'starting') return;
    this.#phase = 'serving';
    this.#started.resolve();
  }

  #replace(
    worker: SupervisedWorker,
    { code, signal, reason, overdue }: WorkerEnd,
    { slot, pause, factor }: { slot: number; pause: number; factor: number },
  ) {
    if (this.#phase === 'ending') return;
    if (this.#phase === 'starting' && overdue === undefined) {
      const what = worker.state === 'never created' ? 'could not be created' : 'exited during startup';
      const fault = worker.state === 'never created' ? undefined : reason;
      this.#started.reject(
        new WorkerStartError(fault ?? `a worker ${what} (${reason ?? signal ?? code})`, fault !== undefined),
      );
      return;
    }
    const { log, replaced } = this.#options;
    log.error(
      { worker: worker.id, code, signal, reason, wait: pause, ...(factor > 1 && { startFactor: factor }) },
      'a worker has ended, and another one takes its place',
    );
    replaced(worker);
    setTimeout(() => {
      this.#run(slot, Math.min(2 * pause, maxPause), factor);
    }, pause);
  }
}
