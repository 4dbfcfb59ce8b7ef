// The lifecycle of one worker process, as its supervisor sees it.
import type { Socket } from 'node:net';
import type { Measured, Source } from '../observability/gathered-metrics.js';
import type { SupervisorMessage, WorkerMessage } from './worker-messages.js';

/**
 * How many connections may be on their way to a worker. Node.js passes one at a time, and the next should be ready when
 * it has arrived. Those of a worker that does not respond wait until it does or is killed.
 */
const maxInFlight = 2;

/** What the lifecycle needs of a process: a ChildProcess of node:child_process has it. */
export interface Child {
  /** Undefined if the system could not create the process. */
  readonly pid?: number | undefined;
  kill(signal: 'SIGKILL'): unknown;
  send(
    message: SupervisorMessage,
    socket: Socket | undefined,
    options: { keepOpen: true },
    sent: () => void,
  ): unknown;
  on(event: 'message', listener: (message: WorkerMessage) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  /** The process has exited, and everything that it wrote to its standard streams has been read. */
  on(event: 'close', listener: (code: number | null, signal: string | null) => void): unknown;
}

/**
 * The states of a worker process, and what follows each:
 *
 * - never created: the system has no process for it; final.
 * - starting: it takes no connections yet; then serving, ending or ended.
 * - serving: it takes connections; then leaving, ending or ended.
 * - leaving: it cannot write or take connections, finishes those that it has, and exits; then ending or ended.
 * - ending: it has been asked to exit, or was killed; then ended.
 * - ended: it has exited; final.
 */
type WorkerState = 'never created' | 'starting' | 'serving' | 'leaving' | 'ending' | 'ended';

/** How a worker process ended. */
export interface WorkerEnd {
  readonly code: number | null;
  readonly signal: string | null;
  /** Why, if the worker or the system reported it. */
  readonly reason: string | undefined;
  /** What it did when the supervisor killed it, because it did not serve in time or did not respond. */
  readonly overdue: 'starting' | 'serving' | undefined;
}

/** How many health checks in a row a worker may leave without a response before it is killed. */
export interface Patience {
  /** Until it serves. */
  readonly starting: number;
  /** From then on. */
  readonly serving: number;
}

/** What others do when something about a worker has changed. */
export interface WorkerEvents {
  /** It has started to serve or left service. */
  readonly changed: (worker: SupervisedWorker) => void;
  /** It may be able to take another connection. */
  readonly freed: () => void;
}

/** One worker process. */
export class SupervisedWorker implements Source {
  /** Identifies the process in the log. */
  readonly id: number;
  /** Resolves when there is no process, or no longer one. Never rejects. */
  readonly ended: Promise<WorkerEnd>;
  readonly #child: Child | undefined;
  readonly #patience: Patience;
  readonly #events: WorkerEvents;
  /** The connections that have been passed to it and that it has not received yet, by their numbers. */
  readonly #inFlight = new Map<number, Socket>();
  #passed = 0;
  #open = 0;
  #state: WorkerState = 'starting';
  #reason: string | undefined;
  #overdue: WorkerEnd['overdue'];
  #missedChecks = 0;
  #measuring: ((measured: Measured) => void)[] = [];
  #probing: ((fault: string | undefined) => void)[] = [];
  #end!: (code: number | null, signal: string | null) => void;

  /**
   * Creates the process.
   * @param fork - Creates it; may throw.
   */
  constructor(id: number, fork: () => Child, patience: Patience, events: WorkerEvents) {
    this.id = id;
    this.#patience = patience;
    this.#events = events;
    this.ended = new Promise((resolve) => {
      this.#end = (code, signal) => {
        resolve({ code, signal, reason: this.#reason, overdue: this.#overdue });
        for (const settle of this.#probing.splice(0)) settle('a worker has ended');
        for (const socket of this.#inFlight.values()) socket.destroy();
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
    if (this.#child.pid === undefined) this.#state = 'never created';
    this.#follow(this.#child);
  }

  get state(): WorkerState {
    return this.#state;
  }

  /** Why it leaves service or has ended, if the worker or the system reported it. */
  get reason(): string | undefined {
    return this.#reason;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** The number of its connections: those that it has reported as open, and those on their way to it. */
  get connections(): number {
    return this.#open + this.#inFlight.size;
  }

  /** Whether it can take another connection now. */
  get isFree(): boolean {
    return this.#state === 'serving' && this.#inFlight.size < maxInFlight;
  }

  /** Passes a connection to it, from which nothing has been read. It is closed if the worker ends before it arrives. */
  take(socket: Socket): void {
    this.#inFlight.set(++this.#passed, socket);
    this.#send({ kind: 'connection', passed: this.#passed }, socket);
  }

  /** Requests its metrics. Does not resolve if it does not respond. */
  measure(): Promise<Measured> {
    return new Promise((resolve) => {
      this.#measuring.push(resolve);
      this.#send({ kind: 'measure' });
    });
  }

  /** Asks why it cannot serve: undefined if it can. Resolves when the worker responds or has ended. */
  probe(): Promise<string | undefined> {
    return new Promise((resolve) => {
      this.#probing.push(resolve);
      this.#send({ kind: 'probe' });
    });
  }

  /**
   * Checks its health. Call it regularly.
   * @returns Whether it was killed, because it did not serve in time or does not respond.
   */
  check(): boolean {
    const starts = this.#state === 'starting';
    if (!starts && this.#state !== 'serving' && this.#state !== 'leaving') return false;
    if (this.#missedChecks++ < (starts ? this.#patience.starting : this.#patience.serving)) {
      if (!starts) this.#send({ kind: 'check', passed: this.#passed });
      return false;
    }
    this.#overdue = starts ? 'starting' : 'serving';
    this.#reason ??= starts ? 'it did not serve in time' : 'it did not respond';
    this.kill();
    return true;
  }

  /** Makes it ask its clients to reconnect. */
  drain(): void {
    if (this.#state === 'serving') this.#send({ kind: 'drain' });
  }

  /** Ends it, with its open requests, and with what it opens if it starts. */
  end(): void {
    const { state } = this;
    if (state !== 'starting' && state !== 'serving' && state !== 'leaving') return;
    this.#state = 'ending';
    this.#send({ kind: 'end' });
  }

  /** Kills it, if there is a process. */
  kill(): void {
    if (this.#state === 'never created' || this.#state === 'ended') return;
    this.#state = 'ending';
    this.#child?.kill('SIGKILL');
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
    child.on('close', (code, signal) => {
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
        this.#missedChecks = 0;
        this.#events.changed(this);
        break;
      case 'leaving':
        this.#reason ??= message.reason;
        if (this.#state !== 'serving') return;
        this.#state = 'leaving';
        this.#events.changed(this);
        // After the connections that are on their way to it.
        this.#send({ kind: 'end' });
        break;
      case 'failed':
        this.#reason ??= message.reason;
        break;
      case 'connections':
        this.#open = message.open;
        for (const number of this.#inFlight.keys()) {
          if (number > message.received) break;
          // The worker has a descriptor of its own.
          this.#inFlight.get(number)?.destroy();
          this.#inFlight.delete(number);
        }
        this.#events.freed();
        break;
      case 'metrics':
        for (const resolve of this.#measuring.splice(0)) resolve(message.metrics);
        break;
      case 'probed':
        for (const resolve of this.#probing.splice(0)) resolve(message.fault);
        break;
      case 'alive':
        this.#missedChecks = 0;
    }
  }

  #send(message: SupervisorMessage, socket?: Socket): void {
    // A worker that has exited does not need the message. Without keepOpen, Node.js would close the connection itself
    // when it has arrived, and would leave it open if the worker exits before.
    this.#child?.send(message, socket, { keepOpen: true }, () => undefined);
  }
}
