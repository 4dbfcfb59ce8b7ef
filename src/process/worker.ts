// A worker process: it serves requests and reads the store itself, and the supervisor controls it.
import type { Worker } from 'node:cluster';
import type { Server, Socket } from 'node:net';
import type { Config } from '../config.js';
import { shutDown } from '../http/connection/shutdown.js';
import type { SupervisorMessage, WorkerMessage } from './messages.js';
import { buildService, describeFault, listen, loadMetrics, shutdownTimes } from './service.js';

/**
 * Serves until the supervisor ends this worker or exits. Reports to the supervisor when it cannot start.
 * @param config - With this worker's part of the shared limits.
 * @param worker - This process.
 * @param writerAddress - Where the supervisor commits writes, if it does.
 */
export async function serveAsWorker(
  config: Config,
  worker: Worker,
  writerAddress: string | undefined,
): Promise<void> {
  // Terminals and systemd also send these signals to the supervisor, which decides when its workers exit.
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => undefined);
  // Without the supervisor, this process could not write, and nothing would end it.
  process.on('disconnect', () => process.exit(1));
  worker.on('error', () => process.exit(1));
  try {
    report(worker, { kind: 'serving', origin: await serve(config, worker, writerAddress) });
  } catch (error) {
    report(worker, { kind: 'failed', reason: describeFault(error) }, () => process.exit(1));
  }
}

/** @returns The origin on which it listens. */
async function serve(config: Config, worker: Worker, writerAddress: string | undefined): Promise<string> {
  const metrics = await loadMetrics(config);
  const name = `worker ${worker.id}`;
  const { app, storage, maxConnections } = await buildService(config, metrics, {
    name,
    isWorker: true,
    writerAddress,
  });
  worker.on('message', ({ kind }: SupervisorMessage) => {
    if (kind === 'end') {
      void shutDown(app, shutdownTimes(config))
        .then(() => storage.close())
        .then(() => process.exit(0));
    } else if (kind === 'check') {
      report(worker, { kind: 'alive' });
    } else {
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
 * Closes connections beyond a limit. With the server's own maxConnections, a worker would return them to the
 * supervisor, which would offer them to one worker after another for as long as all are full.
 */
function closeExcess(server: Server, most: number): void {
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    // The server emits the event again for a socket that has requested an Upgrade.
    if (open.has(socket)) return;
    if (open.size >= most) {
      socket.destroy();
      return;
    }
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
}
