// The lifecycle of one worker process, as its supervisor sees it.
import type { Measured, Source } from '../observability/gathered-metrics.js';
import type { SupervisorMessage, WorkerMessage } from './messages.js';

/** What the lifecycle needs of a process: a Worker of node:cluster has it. */
export interface Child {
  readonly id: number;
  readonly process: {
    /** Undefined if the system could not create the process. */
    readonly pid?: number | undefined;
    kill(signal: 'SIGKILL'): unknown;
    /** The process has exited, and everything that it wrote to its standard streams has been read. */
    on(event: 'close', listener: (code: number | null, signal: string | null) => void): unknown;
  };
  send(message: SupervisorMessage, sent: () => void): unknown;
  on(event: 'message', listener: (message: WorkerMessage) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/**
 * The states of a worker process, and what follows each:
 *
 * - never created: the system has no process for it; final.
 * - starting: it does not listen yet; then serving, ending or ended.
 * - serving: it accepts connections; then leaving, ending or ended.
 * - leaving: it cannot write, accepts no further connections, and exits by itself; then ending or ended.
 * - ending: it has been asked to exit, or was killed; then ended.
 * - ended: it has exited; final.
 */
export type WorkerState = 'never created' | 'starting' | 'serving' | 'leaving' | 'ending' | 'ended';

/** How a worker process ended. */
export interface WorkerEnd {
  readonly code: number | null;
  readonly signal: string | null;
  /** Why, if the worker or the system reported it. */
  readonly reason: string | undefined;
  /** Whether the supervisor killed it because it did not respond, or did not serve in time. */
  readonly overdue: boolean;
}

/** How many health checks in a row a worker may leave without a response. */
export interface Patience {
  /** Until it serves. */
  readonly starting: number;
  /** From then on. */
  readonly serving: number;
}

/** One worker process. */
export class WorkerProcess implements Source {
  /** Identifies the process in the log; undefined if it was never created. */
  readonly id: number | undefined;
  /** Resolves when there is no process, or no longer one. Never rejects. */
  readonly ended: Promise<WorkerEnd>;
  readonly #child: Child | undefined;
  readonly #patience: Patience;
  readonly #changed: (worker: WorkerProcess) => void;
  #state: WorkerState = 'starting';
  #origin = '';
  #reason: string | undefined;
  #overdue = false;
  #unanswered = 0;
  #measuring: ((measured: Measured) => void)[] = [];
  #probing: ((fault: string | undefined) => void)[] = [];
  #end!: (code: number | null, signal: string | null) => void;

  /**
   * Creates the process.
   * @param fork - Creates it; may throw.
   * @param changed - Called when the process starts to serve or leaves service.
   */
  constructor(fork: () => Child, patience: Patience, changed: (worker: WorkerProcess) => void) {
    this.#patience = patience;
    this.#changed = changed;
    this.ended = new Promise((resolve) => {
      this.#end = (code, signal) => {
        resolve({ code, signal, reason: this.#reason, overdue: this.#overdue });
        for (const settle of this.#probing.splice(0)) settle('a worker has ended');
      };
    });
    try {
      this.#child = fork();
    } catch (error) {
      this.#state = 'never created';
      this.#reason = (error as Error).message;
      this.#end(null, null);
      return;
    }
    if (this.#child.process.pid === undefined) this.#state = 'never created';
    this.id = this.#child.id;
    this.#follow(this.#child);
  }

  get state(): WorkerState {
    return this.#state;
  }

  get pid(): number | undefined {
    return this.#child?.process.pid;
  }

  /** The origin on which it listens; empty until it serves. */
  get origin(): string {
    return this.#origin;
  }

  /** Requests its metrics. Does not resolve if it does not respond. */
  measure(): Promise<Measured> {
    return new Promise((resolve) => {
      this.#measuring.push(resolve);
      this.#tell('measure');
    });
  }

  /** Asks why its storage cannot serve: undefined if it can. Resolves when the worker responds or has ended. */
  storageFault(): Promise<string | undefined> {
    return new Promise((resolve) => {
      this.#probing.push(resolve);
      this.#tell('storage');
    });
  }

  /**
   * Checks its health. Call it regularly.
   * @returns Whether it was killed, because it did not serve in time or does not respond.
   */
  check(): boolean {
    const starts = this.#state === 'starting';
    if (!starts && this.#state !== 'serving' && this.#state !== 'leaving') return false;
    if (this.#unanswered++ < (starts ? this.#patience.starting : this.#patience.serving)) {
      if (!starts) this.#tell('check');
      return false;
    }
    this.#overdue = true;
    this.#reason ??= starts ? 'it did not serve in time' : 'it did not respond';
    this.kill();
    return true;
  }

  /** Ends it: with its open requests, if it serves. */
  end(): void {
    if (this.#state === 'starting') this.kill();
    if (this.#state !== 'serving' && this.#state !== 'leaving') return;
    this.#state = 'ending';
    this.#tell('end');
  }

  /** Kills it, if there is a process. */
  kill(): void {
    if (this.#state === 'never created' || this.#state === 'ended') return;
    this.#state = 'ending';
    this.#child?.process.kill('SIGKILL');
  }

  #follow(child: Child): void {
    child.on('message', (message) => {
      this.#receive(message);
    });
    child.on('error', (error) => {
      this.#reason ??= error.message;
      // Other errors, of messages that cannot be sent, do not end a process.
      if (this.#state === 'never created') this.#end(null, null);
    });
    child.process.on('close', (code, signal) => {
      if (this.#state === 'never created') return;
      this.#state = 'ended';
      this.#end(code, signal);
    });
  }

  #receive(message: WorkerMessage): void {
    switch (message.kind) {
      case 'serving':
        if (this.#state !== 'starting') return;
        this.#state = 'serving';
        this.#origin = message.origin;
        this.#unanswered = 0;
        this.#changed(this);
        break;
      case 'leaving':
        this.#reason ??= message.reason;
        if (this.#state !== 'serving') return;
        this.#state = 'leaving';
        this.#changed(this);
        break;
      case 'failed':
        this.#reason ??= message.reason;
        break;
      case 'metrics':
        for (const resolve of this.#measuring.splice(0)) resolve(message.metrics);
        break;
      case 'storage':
        for (const resolve of this.#probing.splice(0)) resolve(message.fault);
        break;
      case 'alive':
        this.#unanswered = 0;
    }
  }

  #tell(kind: SupervisorMessage['kind']): void {
    // A worker that has exited does not need the message.
    this.#child?.send({ kind }, () => undefined);
  }
}
