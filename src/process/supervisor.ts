// The parent of the workers, which owns the port, the writer, the operations listener and the shutdown.
import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import Fastify, { type FastifyBaseLogger } from 'fastify';
import type { Config } from '../config.js';
import type { GatheredMetrics, Measured, Source } from '../observability/gathered-metrics.js';
import type { Metrics } from '../observability/metrics.js';
import { writerVariable, type SupervisorMessage, type WorkerMessage } from './messages.js';
import { greetDeveloper } from './developer.js';
import { listenForOperators, reportReady } from './operators.js';
import {
  endOnSignal,
  loadMetrics,
  logOptions,
  openConfiguredStorage,
  shutdownTimes,
  warnOfMisspelledVariables,
} from './service.js';

/** The pause before the first restart of a worker, in ms. It doubles with each further restart. */
const firstPause = 100;
/** The longest pause before a restart, in ms. */
const longestPause = 30_000;
/** A worker that has run for longer than this, in ms, is restarted after `firstPause`. */
const steadyTime = 60_000;
/** How long to wait for workers to exit after their own time limits have passed, in ms. */
const endGrace = 5_000;

/**
 * The number of health checks of a worker in WORKER_TIMEOUT_SECONDS. The supervisor counts unanswered checks rather
 * than time, so that it does not kill workers after the whole machine has paused.
 */
const checks = 5;

/** A worker, as the supervisor sees it. */
interface Member extends Source {
  readonly worker: Worker;
  /** When it was started, on the clock of performance.now(). */
  readonly since: number;
  /** The origin on which it listens; undefined until it does. */
  origin: string | undefined;
  /** Why it could not start, as the worker reported it. */
  fault: string | undefined;
  /** The number of health checks since its last response. */
  unanswered: number;
}

/**
 * Starts the configured number of workers, and restarts those that die. Resolves when all of them serve.
 * @param dev - Whether the server runs in development mode.
 * @throws StorageError when the storage cannot be opened.
 * @throws ConfigError when the operations listener cannot listen.
 */
export async function supervise(config: Config, dev: boolean): Promise<void> {
  const options = await logOptions(config, () => log, { name: 'supervisor' });
  const log: FastifyBaseLogger = Fastify({ logger: options }).log;
  warnOfMisspelledVariables(log);
  const metrics = await loadMetrics(config);
  const storage = await openConfiguredStorage(config, metrics, { forWorkers: true });
  const members = new Set<Member>();
  const serving = () => [...members].filter(({ origin }) => origin !== undefined);
  let phase: 'starting' | 'serving' | 'ending' = 'starting';
  let allServe: (origin: string) => void = () => undefined;
  const started = new Promise<string>((resolve) => (allServe = resolve));
  const gathered = metrics && (await gatherMetrics(metrics, serving));

  cluster.setupPrimary({
    exec: fileURLToPath(new URL('../main.js', import.meta.url)),
    args: [],
  });
  const environment = {
    ...share(config),
    ...(storage.writerAddress !== undefined && { [writerVariable]: storage.writerAddress }),
  };
  const start = (pause: number) => {
    if (phase === 'ending') return;
    const worker = cluster.fork(environment);
    let waiting: ((measured: Measured) => void)[] = [];
    const measure = () =>
      new Promise<Measured>((resolve) => {
        waiting.push(resolve);
        tell(worker, 'measure');
      });
    const member: Member = {
      worker,
      since: performance.now(),
      origin: undefined,
      fault: undefined,
      unanswered: 0,
      measure,
    };
    members.add(member);
    worker.on('message', (message: WorkerMessage) => {
      if (message.kind === 'serving') {
        member.origin = message.origin;
        log.info({ worker: worker.id, workerPid: worker.process.pid }, 'a worker serves');
        if (serving().length === config.WORKERS) allServe(message.origin);
      } else if (message.kind === 'failed') {
        member.fault = message.reason;
      } else if (message.kind === 'metrics') {
        for (const resolve of waiting) resolve(message.metrics);
        waiting = [];
      } else {
        member.unanswered = 0;
      }
    });
    const replace = (code: number | null, signal: string | null) => {
      members.delete(member);
      if (phase === 'ending') return;
      if (phase === 'starting') {
        console.error(member.fault ?? `plant-store: a worker exited during startup (${signal ?? code})`);
        killAll(members);
        process.exit(1);
      }
      const wait = performance.now() - member.since > steadyTime ? firstPause : pause;
      log.error(
        { worker: worker.id, code, signal, reason: member.fault, wait },
        'a worker has ended, and another one takes its place',
      );
      void gathered?.replace(member);
      setTimeout(start, wait, Math.min(2 * wait, longestPause));
    };
    worker.on('exit', replace);
    worker.on('error', (error) => {
      member.fault ??= error.message;
      // The system could not create a process, so there is no exit event.
      if (worker.process.pid === undefined && members.has(member)) replace(null, null);
    });
  };
  for (let i = 0; i < config.WORKERS; i++) start(firstPause);

  const operations = await listenForOperators(
    {
      // Half of the workers are enough to serve while the others restart.
      serving: () => phase === 'serving' && 2 * serving().length >= config.WORKERS,
      checkStorage: () => storage.check(),
      metrics: gathered && { registry: gathered },
      log,
    },
    config,
  );
  const origin = await started;
  phase = 'serving';
  reportReady(log, origin);
  const checking = checkRegularly(serving, config, log);
  endOnSignal({
    log,
    storage,
    operations,
    stop: async () => {
      phase = 'ending';
      clearInterval(checking);
      await endAll(members, config);
    },
    abort: () => {
      killAll(members);
    },
  });
  if (dev) await greetDeveloper(origin, storage, config);
}

/** Regularly kills workers whose event loop does not respond. The exit handler replaces them. */
function checkRegularly(
  serving: () => readonly Member[],
  { WORKER_TIMEOUT_SECONDS }: Config,
  log: FastifyBaseLogger,
): NodeJS.Timeout | undefined {
  if (WORKER_TIMEOUT_SECONDS === 0) return undefined;
  const check = () => {
    for (const member of serving()) {
      const { worker } = member;
      if (member.unanswered++ < checks) {
        tell(worker, 'check');
      } else {
        log.error({ worker: worker.id }, 'a worker does not respond, and is killed');
        worker.process.kill('SIGKILL');
      }
    }
  };
  return setInterval(check, (WORKER_TIMEOUT_SECONDS * 1000) / checks);
}

/** Shuts down the workers that serve, kills the others, and resolves when all of them have exited. */
async function endAll(members: ReadonlySet<Member>, config: Config): Promise<void> {
  const ends = [...members].map(({ worker, origin }) => {
    const ended = once(worker, 'exit');
    if (origin === undefined) worker.process.kill('SIGKILL');
    else tell(worker, 'end');
    return ended;
  });
  const { drainTime, patience } = shutdownTimes(config);
  const deadline = setTimeout(killAll, drainTime + patience + endGrace, members);
  await Promise.all(ends);
  clearTimeout(deadline);
}

function killAll(members: Iterable<Member>): void {
  for (const { worker } of members) worker.process.kill('SIGKILL');
}

function tell(worker: Worker, kind: SupervisorMessage['kind']): void {
  // A worker that has exited does not need the message.
  worker.send({ kind } satisfies SupervisorMessage, () => undefined);
}

async function gatherMetrics(
  { registry }: Metrics,
  serving: () => readonly Member[],
): Promise<GatheredMetrics<Member>> {
  const { GatheredMetrics } = await import('../observability/gathered-metrics.js');
  return new GatheredMetrics(registry, serving);
}

/** The limits that all workers share, each with the minimum for one worker. */
const divided = [
  ['MAX_CONNECTIONS', 1],
  ['BODY_BUDGET_BYTES', 1_024],
  ['LIST_BUDGET_BYTES', 1_024],
  ['WRITE_QUEUE_ROWS', 1],
  ['WRITE_QUEUE_BYTES', 1_024],
  ['WRITE_BATCH_ROWS', 1],
  ['WRITE_BATCH_BYTES', 1_024],
] as const;

/** The environment of a worker, with its part of the shared limits. */
function share(config: Config): Record<string, string> {
  const { WORKERS } = config;
  const part = (all: number, least: number) => String(Math.max(least, Math.floor(all / WORKERS)));
  const shares = divided.map(([name, least]) => [name, part(config[name], least)] as const);
  return { WORKERS: String(WORKERS), ...Object.fromEntries(shares) };
}
