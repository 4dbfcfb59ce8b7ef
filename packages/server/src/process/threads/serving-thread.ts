// A thread that serves: it listens on the address that all have, and reads the store itself.
import { parentPort } from 'node:worker_threads';
import type { Service } from '../../service/definition.js';
import { messageOf } from '../../storage/core/interface.js';
import type { Metrics } from '../../observability/metrics.js';
import { buildService, checkBoth, closeBoth, loadMetrics, type BuiltService } from '../configured-service.js';
import { listenTogether } from '../listening.js';
import { interrupted, onEnd } from '../ending.js';
import { describeFault } from '../start-errors.js';
import {
  endMessage,
  type Answer,
  type Answers,
  type FirstMessage,
  type Question,
  type ThreadData,
} from './thread-data.js';

/** Serves until the main thread ends this one. Tells the main thread if it cannot start. */
export async function serveInThread(service: Service, data: ThreadData): Promise<void> {
  const { config } = data;
  try {
    const metrics = await loadMetrics(service, config);
    const built = await buildService(service, config, metrics, data);
    answerQuestions(service, built, metrics);
    say(undefined);
    onEnd(() => void end(built, config.limits.shutdownTime));
  } catch (error) {
    if (interrupted.aborted) process.exit(0);
    say(describeFault(error, service));
    process.exit(1);
  }
}

async function end(built: BuiltService, patience: number): Promise<void> {
  await closeBoth(built, patience);
  // This ends the thread alone. It does not wait for what a service has left open.
  process.exit(0);
}

/** The function that answers each question. */
type Answering = {
  readonly [Kind in keyof Answers]: (at: Question['at']) => Promise<Answers[Kind]> | Answers[Kind];
};

function answerQuestions(service: Service, built: BuiltService, metrics: Metrics | undefined): void {
  const { app } = built;
  const answering: Answering = {
    listen: async (at) => {
      await listenTogether(app, at!);
      return { origin: app.listeningOrigin, tokenPlace: app.tokenPlace };
    },
    drain: () => {
      app.drain();
      return undefined;
    },
    measure: async () => (await metrics?.registry.getMetricsAsJSON()) ?? [],
    probe: () => checkBoth(built).then(() => undefined, messageOf),
    check: () => undefined,
  };
  parentPort?.on('message', (question: Question | typeof endMessage) => {
    if (question === endMessage) return;
    const { kind, at, reply } = question;
    void (async () => answering[kind](at))()
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
