// A thread that serves: it listens on the address that all have, and reads the store itself.
import { parentPort } from 'node:worker_threads';
import { shutDown } from '../../http/connection/shutdown.js';
import type { Metrics } from '../../observability/metrics.js';
import type { Service } from '../../service/definition.js';
import { messageOf } from '../../storage/core/interface.js';
import { buildService, checkBoth, loadMetrics, type BuiltService } from '../configured-service.js';
import { interrupted, onEnd } from '../ending.js';
import { describeFault } from '../start-errors.js';
import type { Answer, Answers, FirstMessage, Question, ThreadData } from './thread-data.js';

/** Serves until the main thread ends this one. Tells the main thread if it cannot start. */
export async function serveInThread(service: Service, data: ThreadData): Promise<void> {
  const { config } = data;
  try {
    const metrics = await loadMetrics(service, config);
    const built = await buildService(service, config, metrics, data);
    answerQuestions(service, built, metrics);
    say(undefined);
    onEnd(async () => {
      await shutDown(built.app, config.limits);
      await built.storage.close();
      // This ends the thread alone. It does not wait for what a service has left open.
      process.exit(0);
    });
  } catch (error) {
    if (interrupted.aborted) process.exit(0);
    say(describeFault(error, service));
    process.exit(1);
  }
}

/** The function that answers each question. */
type Answering = {
  readonly [Kind in keyof Answers]: (at: Question['at']) => Promise<Answers[Kind]>;
};

function answerQuestions(service: Service, built: BuiltService, metrics: Metrics | undefined): void {
  const { app } = built;
  const answering: Answering = {
    listen: async (at) => {
      // The kernel distributes the connections.
      await app.listen({ ...at!, reusePort: true } as { port: number });
      return { origin: app.listeningOrigin, tokenPlace: app.tokenPlace };
    },
    measure: async () => (await metrics?.registry.getMetricsAsJSON()) ?? [],
    probe: () => checkBoth(built).then(() => undefined, messageOf),
  };
  parentPort?.on('message', (question: Question | string) => {
    if (typeof question === 'string') return;
    const { kind, at, reply } = question;
    void answering[kind](at)
      .then(
        (value): Answer<unknown> => ({ value }),
        (error: unknown): Answer<unknown> => ({ fault: describeFault(error, service) }),
      )
      .then((answer) => {
        reply.postMessage(answer);
      });
  });
}

function say(message: FirstMessage): void {
  parentPort?.postMessage(message);
}
