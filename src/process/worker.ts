// A worker process: it serves requests and reads the store itself, and the supervisor controls it.
import type { Worker } from 'node:cluster';
import type { Server, Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Config } from '../config.js';
import { messageOf } from '../domain/storage.js';
import { shutDown, stopListening } from '../http/connection/shutdown.js';
import { logDescriptor, type SupervisorMessage, type WorkerMessage } from './messages.js';
import { buildService, describeFault, listen, loadMetrics, shutdownTimes } from './service.js';

/** How long a worker that cannot write any more stays to finish its open connections, in ms. */
const leaveTime = 5_000;

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
    output: logDescriptor,
    isWorker: true,
    writerAddress,
  });
  let phase: 'serving' | 'leaving' | 'ending' = 'serving';
  worker.on('message', ({ kind }: SupervisorMessage) => {
    switch (kind) {
      case 'end':
        if (phase !== 'serving') return;
        phase = 'ending';
        void shutDown(app, shutdownTimes(config))
          .then(() => storage.close())
          .then(() => process.exit(0));
        break;
      case 'check':
        report(worker, { kind: 'alive' });
        break;
      case 'storage':
        void storage
          .check()
          .then(() => undefined, messageOf)
          .then((fault) => {
            report(worker, { kind: 'storage', fault });
          });
        break;
      case 'measure':
        void metrics?.registry.getMetricsAsJSON().then((all) => {
          report(worker, { kind: 'metrics', metrics: all });
        });
    }
  });
  closeExcess(app.server, maxConnections);
  void storage.broken.then((error) => {
    if (phase !== 'serving') return;
    phase = 'leaving';
    app.log.error({ err: error }, 'the storage is broken');
    report(worker, { kind: 'leaving', reason: error.message });
    leave(app);
  });
  await listen(app, config);
  return app.listeningOrigin;
}

/**
 * Takes a worker out of service that cannot write any more: it accepts no further connections, and exits when those that
 * are open have ended. Their next responses have `Connection: close`, so that clients reconnect to another worker.
 */
function leave(app: FastifyInstance): void {
  app.drain();
  setTimeout(() => process.exit(1), leaveTime);
  stopListening(app.server, () => process.exit(1));
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
