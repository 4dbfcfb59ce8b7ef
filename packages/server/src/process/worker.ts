// A worker process: it serves the connections that the supervisor passes to it, and reads the store itself.
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Config } from '../config.js';
import type { Service } from '../definition.js';
import { messageOf } from '../storage/interface.js';
import { startTimeLimits } from '../node/http.js';
import { oncePerIteration } from '../once-per-iteration.js';
import type { Metrics } from '../observability/metrics.js';
import { logDescriptor, type SupervisorMessage, type WorkerMessage } from './worker-messages.js';
import { interrupted, onEnd } from './signals.js';
import { describeFault } from './start-errors.js';
import { buildService, checkBoth, closeBoth, loadMetrics, type BuiltService } from './configured-service.js';

/** How long a worker that leaves service stays to finish its open connections, in ms. */
const leaveTime = 5_000;

/** Which worker this process is, as the supervisor says. */
interface WorkerIdentity {
  /** The number of this process. */
  readonly id: string;
  /** Its place among the workers, from 0. */
  readonly slot: number;
  /** Where the supervisor commits writes, if it does. */
  readonly writerAddress: string | undefined;
}

/**
 * Serves until the supervisor ends this worker or exits. Reports to the supervisor when it cannot start.
 * @param config - With this worker's part of the shared limits.
 */
export async function serveAsWorker(
  service: Service,
  config: Config,
  { id, slot, writerAddress }: WorkerIdentity,
): Promise<void> {
  // Without the supervisor, this process could not write, and nothing would end it.
  process.on('disconnect', () => process.exit(1)).on('error', () => process.exit(1));
  try {
    const metrics = await loadMetrics(service, config);
    const built = await buildService(service, config, metrics, {
      name: `worker ${id}`,
      worker: slot + 1,
      output: logDescriptor,
      writerAddress,
    });
    new WorkerService(built, metrics, config).start();
  } catch (error) {
    if (interrupted.aborted) process.exit(0);
    report({ kind: 'failed', reason: describeFault(error, service) }, () => process.exit(1));
  }
}

/**
 * The service of this process. It is serving; then leaving, when it cannot write or take connections any more; then
 * ending, when the supervisor says that no further connection is on its way.
 */
class WorkerService {
  readonly #built: BuiltService;
  readonly #app: FastifyInstance;
  readonly #metrics: Metrics | undefined;
  readonly #patience: number;
  #phase: 'serving' | 'leaving' | 'ending' = 'serving';
  /** The number of the last connection that the supervisor has passed and that has arrived, or never will. */
  #received = 0;
  #open = 0;
  readonly #reportConnections = oncePerIteration(() => {
    report({ kind: 'connections', open: this.#open, received: this.#received });
  });

  constructor(built: BuiltService, metrics: Metrics | undefined, config: Config) {
    this.#built = built;
    this.#app = built.app;
    this.#metrics = metrics;
    this.#patience = config.limits.shutdownTime;
  }

  start(): void {
    void this.#built.storage.broken.then((error) => {
      this.#app.log.error({ err: error }, 'the storage is broken');
      this.#leave(error.message);
    });
    startTimeLimits(this.#app.server);
    process.on('message', (message: SupervisorMessage, socket: Socket | undefined) => {
      this.#receive(message, socket);
    });
    report({ kind: 'serving' });
    onEnd(() => void this.#end());
  }

  #receive(message: SupervisorMessage, socket: Socket | undefined): void {
    switch (message.kind) {
      case 'connection':
        this.#checkReceived(message.passed - 1);
        this.#received = message.passed;
        this.#serve(socket);
        break;
      case 'check':
        this.#checkReceived(message.passed);
        report({ kind: 'alive' });
        break;
      case 'drain':
        this.#app.drain();
        break;
      case 'probe':
        void checkBoth(this.#built)
          .then(() => undefined, messageOf)
          .then((fault) => {
            report({ kind: 'probed', fault });
          });
        break;
      case 'measure':
        void this.#metrics?.registry.getMetricsAsJSON().then((all) => {
          report({ kind: 'metrics', metrics: all });
        });
    }
  }

  #serve(socket: Socket | undefined): void {
    this.#reportConnections();
    // Its client has gone while it waited.
    if (socket?.remoteAddress === undefined) {
      socket?.destroy();
      return;
    }
    this.#open++;
    socket.once('close', () => {
      this.#open--;
      this.#reportConnections();
    });
    this.#app.server.emit('connection', socket);
  }

  /** Without a descriptor for it, this process does not receive a connection. It would lose all further ones, too. */
  #checkReceived(passed: number): void {
    if (this.#received >= passed) return;
    this.#received = passed;
    this.#reportConnections();
    this.#leave('a connection did not reach it');
  }

  /** Leaves service: responses ask clients to reconnect, to another worker, and this process exits soon. */
  #leave(reason: string): void {
    if (this.#phase !== 'serving') return;
    this.#phase = 'leaving';
    report({ kind: 'leaving', reason });
    this.#app.drain();
    setTimeout(() => process.exit(1), leaveTime);
  }

  async #end(): Promise<void> {
    if (this.#phase === 'ending') return;
    const status = this.#phase === 'leaving' ? 1 : 0;
    this.#phase = 'ending';
    await closeBoth(this.#built, this.#patience);
    process.exit(status);
  }
}

function report(message: WorkerMessage, done: () => void = () => undefined): void {
  process.send?.(message, done);
}
