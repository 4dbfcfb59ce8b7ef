// A worker process: it serves the connections that the supervisor passes to it, and reads the store itself.
import type { Socket } from 'node:net';
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
    serve(built, metrics, config.limits.shutdownTime);
  } catch (error) {
    if (interrupted.aborted) process.exit(0);
    report({ kind: 'failed', reason: describeFault(error, service) }, () => process.exit(1));
  }
}

/**
 * Serves in this process. It is serving; then leaving, when it cannot write or take connections any more; then ending,
 * when the supervisor says that no further connection is on its way.
 * @param patience - How long its requests may take to end, in ms.
 */
function serve(built: BuiltService, metrics: Metrics | undefined, patience: number): void {
  const { app, storage } = built;
  let phase: 'serving' | 'leaving' | 'ending' = 'serving';
  /** The number of the last connection that the supervisor has passed and that has arrived, or never will. */
  let received = 0;
  let open = 0;
  const reportConnections = oncePerIteration(() => {
    report({ kind: 'connections', open, received });
  });

  /** Leaves service: responses ask clients to reconnect, to another worker, and this process exits soon. */
  const leave = (reason: string) => {
    if (phase !== 'serving') return;
    phase = 'leaving';
    report({ kind: 'leaving', reason });
    app.drain();
    setTimeout(() => process.exit(1), leaveTime);
  };

  const end = async () => {
    if (phase === 'ending') return;
    const status = phase === 'leaving' ? 1 : 0;
    phase = 'ending';
    await closeBoth(built, patience);
    process.exit(status);
  };

  /** Without a descriptor for it, this process does not receive a connection. It would lose all further ones, too. */
  const checkReceived = (passed: number) => {
    if (received >= passed) return;
    received = passed;
    reportConnections();
    leave('a connection did not reach it');
  };

  const take = (socket: Socket | undefined) => {
    reportConnections();
    // Its client has gone while it waited.
    if (socket?.remoteAddress === undefined) {
      socket?.destroy();
      return;
    }
    open++;
    socket.once('close', () => {
      open--;
      reportConnections();
    });
    app.server.emit('connection', socket);
  };

  void storage.broken.then((error) => {
    app.log.error({ err: error }, 'the storage is broken');
    leave(error.message);
  });
  startTimeLimits(app.server);
  process.on('message', (message: SupervisorMessage, socket: Socket | undefined) => {
    switch (message.kind) {
      case 'connection':
        checkReceived(message.passed - 1);
        received = message.passed;
        take(socket);
        break;
      case 'check':
        checkReceived(message.passed);
        report({ kind: 'alive' });
        break;
      case 'drain':
        app.drain();
        break;
      case 'probe':
        void checkBoth(built)
          .then(() => undefined, messageOf)
          .then((fault) => {
            report({ kind: 'probed', fault });
          });
        break;
      case 'measure':
        void metrics?.registry.getMetricsAsJSON().then((all) => {
          report({ kind: 'metrics', metrics: all });
        });
    }
  });
  report({ kind: 'serving' });
  onEnd(() => void end());
}

function report(message: WorkerMessage, done: () => void = () => undefined): void {
  process.send?.(message, done);
}
