// Accepts the connections of a service with several workers, and passes each to one of them.
import { createServer, type AddressInfo, type Socket } from 'node:net';

/** What takes connections: a WorkerProcess. */
export interface Taker {
  take(socket: Socket): void;
}

/** What the acceptor needs of the workers. */
export interface Takers {
  /** The number of connections of all workers. */
  readonly connections: number;
  /** The worker for the next connection; undefined while none is free. */
  next(): Taker | undefined;
}

/** How many connections the acceptor may have. */
export interface AcceptorLimits {
  /** The maximum number of connections that wait here. */
  readonly waiting: number;
  /** The maximum number of connections, here and of all workers together. */
  readonly total: number;
}

/**
 * Listens in the supervisor. Connections wait here while no worker is free. Those beyond a limit are closed at once, so
 * that they neither take all descriptors of the process nor wait without end.
 */
export class Acceptor {
  readonly #takers: Takers;
  readonly #limits: AcceptorLimits;
  readonly #waiting: Socket[] = [];
  // As http.Server does for its own connections, without reading from them.
  readonly #server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
    this.#accept(socket);
  });

  constructor(takers: Takers, limits: AcceptorLimits) {
    this.#takers = takers;
    this.#limits = limits;
  }

  /** The number of open connections, here and of all workers. */
  get connections(): number {
    return this.#waiting.length + this.#takers.connections;
  }

  /**
   * Starts to listen.
   * @returns The address.
   * @throws a system error.
   */
  listen(place: { host: string; port: number }): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject).listen(place, () => {
        this.#server.off('error', reject).on('error', () => undefined);
        resolve(this.#server.address() as AddressInfo);
      });
    });
  }

  /** Passes connections that wait to workers that are free. Call it whenever one may have become free. */
  distribute(): void {
    while (this.#waiting.length > 0) {
      const taker = this.#takers.next();
      if (taker === undefined) return;
      taker.take(this.#waiting.shift()!);
    }
  }

  /** Stops listening. Connections that wait are still passed. */
  close(): void {
    this.#server.close();
  }

  #accept(socket: Socket): void {
    if (this.#waiting.length >= this.#limits.waiting || this.connections >= this.#limits.total) {
      socket.destroy();
      return;
    }
    this.#waiting.push(socket);
    this.distribute();
  }
}
