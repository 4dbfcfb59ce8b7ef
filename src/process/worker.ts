// One of several processes that answer: it reads the store itself, and obeys the supervisor alone.
import type { Worker } from 'node:cluster';
import type { Server, Socket } from 'node:net';
import type { Config } from '../config.js';
import { shutDown } from '../http/connection/shutdown.js';
import type { SupervisorMessage, WorkerMessage } from './messages.js';
import { buildService, describeFault, listen, loadMetrics, shutdownTimes } from './service.js';

/**
 * Serves until the supervisor says otherwise, or is gone. When it cannot, the supervisor learns why.
 * @param config - With this worker's share of what all of them may use.
 * @param worker - Itself.
 */
export async function serveAsWorker(config: Config, worker: Worker): Promise<void> {
  // A terminal and systemd send these to the supervisor too, which knows when its workers may end.
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => undefined);
  // Without the supervisor nobody writes, and nobody would end this process.
  process.on('disconnect', () => process.exit(1));
  worker.on('error', () => process.exit(1));
  try {
    report(worker, { kind: 'serving', origin: await serve(config, worker) });
  } catch (error) {
    report(worker, { kind: 'failed', reason: describeFault(error) }, () => process.exit(1));
  }
}

/** @returns Where it serves. */
async function serve(config: Config, worker: Worker): Promise<string> {
  const metrics = await loadMetrics(config);
  const name = `worker ${worker.id}`;
  const { app, storage, maxConnections } = await buildService(config, metrics, { name, channel: worker });
  worker.on('message', ({ kind }: SupervisorMessage) => {
    if (kind === 'end') {
      void shutDown(app, shutdownTimes(config))
        .then(() => storage.close())
        .then(() => process.exit(0));
    } else if (kind === 'check') {
      report(worker, { kind: 'alive' });
    } else if (kind === 'measure') {
      void metrics?.registry.getMetricsAsJSON().then((all) => {
        report(worker, { kind: 'metrics', metrics: all });
      });
    }
  });
  closeExcess(app.server, maxConnections);
  await listen(app, config);
  return app.listeningOrigin;
}

function report(worker: Worker, message: WorkerMessage, done: () => void = () => undefined): void {
  worker.send(message, done);
}

/**
 * Closes the connections beyond a number. With the server's own maxConnections a worker would hand them back, and the
 * supervisor would pass them round for as long as all workers are full.
 */
function closeExcess(server: Server, most: number): void {
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    // One that had asked for an Upgrade is attached to the server again.
    if (open.has(socket)) return;
    if (open.size >= most) {
      socket.destroy();
      return;
    }
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
}
