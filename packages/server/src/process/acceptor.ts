// Accepts the connections of a service with several workers, and passes each to one of them.
import { createServer, type AddressInfo, type Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { reportNothing, type RejectionReason, type ReportRejection } from '../http/connection/rejections.js';
import type { WorkerPool } from './worker-pool.js';

/** The time between two warnings about connections that cannot be accepted, in ms. */
const warningInterval = 60_000;

/** How many connections the acceptor may have. */
interface AcceptorLimits {
  /** The maximum number of connections that wait here. */
  readonly waiting: number;
  /** How long one may wait, in ms. */
  readonly waitTime: number;
  /** The maximum number of connections, here and of all workers together. */
  readonly total: number;
}

/**
 * Listens in the supervisor. Connections wait here while no worker is free, for a limited time, since their clients may
 * have left unnoticed. Those beyond a limit are closed at once, so that they cannot take all descriptors of
 * the process.
 */
export class Acceptor {
  readonly #workers: Pick<WorkerPool, 'connections' | 'next'>;
  readonly #limits: AcceptorLimits;
  readonly #log: Pick<FastifyBaseLogger, 'warn'>;
  readonly #report: ReportRejection;
  readonly #waiting = new Set<Socket>();
  // As http.Server does for its own connections, without reading from them.
  readonly #server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
    this.#accept(socket);
  });
  #closed = false;
  #warned = -Infinity;

  constructor(
    workers: Pick<WorkerPool, 'connections' | 'next'>,
    limits: AcceptorLimits,
    log: Pick<FastifyBaseLogger, 'warn'>,
    report = reportNothing,
  ) {
    this.#workers = workers;
    this.#limits = limits;
    this.#log = log;
    this.#report = report;
  }

  /** Whether it listens. */
  get listening(): boolean {
    return this.#server.listening;
  }

  /** The number of open connections, here and of all workers. */
  get connections(): number {
    return this.#waiting.size + this.#workers.connections;
  }

  /**
   * Starts to listen.
   * @returns The address. Does not resolve after close().
   * @throws a system error.
   */
  listen(address: { host: string; port: number }): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return;
      this.#server.once('error', reject).listen(address, () => {
        this.#server.off('error', reject).on('error', (error) => {
          this.#warn(error);
        });
        resolve(this.#server.address() as AddressInfo);
      });
    });
  }

  /** Passes connections that wait to workers that are free. Call it whenever one may have become free. */
  distribute(): void {
    for (const socket of this.#waiting) {
      const worker = this.#workers.next();
      if (worker === undefined) return;
      this.#waiting.delete(socket);
      socket.setTimeout(0);
      worker.take(socket);
    }
  }

  /** Stops listening, and passes the connections that wait, or closes them if there is no worker. */
  close(): void {
    this.#closed = true;
    this.#server.close();
    for (const socket of this.#waiting) {
      socket.setTimeout(0);
      const worker = this.#workers.next(true);
      if (worker === undefined) socket.destroy();
      else worker.take(socket);
    }
    this.#waiting.clear();
  }

  #accept(socket: Socket): void {
    // A client that resets its connection is no fault of this process.
    socket.on('error', () => undefined);
    if (this.#waiting.size >= this.#limits.waiting || this.connections >= this.#limits.total) {
      this.#reject(socket, 'connection_limit');
      return;
    }
    this.#waiting.add(socket);
    this.distribute();
    if (!this.#waiting.has(socket)) return;
    socket.setTimeout(this.#limits.waitTime, () => {
      this.#waiting.delete(socket);
      this.#reject(socket, 'no_worker');
    });
  }

  #reject(socket: Socket, reason: RejectionReason): void {
    this.#report({ reason, address: socket.remoteAddress });
    socket.destroy();
  }

  #warn(error: Error): void {
    if (performance.now() < this.#warned + warningInterval) return;
    this.#warned = performance.now();
    this.#log.warn({ err: error }, 'a connection cannot be accepted');
  }
}
