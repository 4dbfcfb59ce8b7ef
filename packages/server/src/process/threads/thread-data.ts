// The worker data of threads that serve, and the messages between them and the main thread. Loaded before signals are
// received.
import { isMainThread, workerData, type MessagePort } from 'node:worker_threads';
import type { Tls } from '../../http/connection/server.js';
import type { StorageShare } from '../../storage/open.js';
import type { Config } from '../config.js';
import type { Reachable } from '../development-message.js';
import type { Address } from '../listening.js';

/** The worker data of a thread that serves. */
export interface ThreadData {
  /** Its number, from 1. */
  readonly thread: number;
  readonly config: Config;
  readonly tls: Tls | undefined;
  readonly share: StorageShare;
}

/** The answers of a thread, by the kind of question. */
export interface Answers {
  /** Listens on an address, which other threads may have, too, and answers with how it can be reached. */
  readonly listen: Reachable;
  /** Answers with its metrics, as Registry.getMetricsAsJSON returns them; this also shows that its event loop runs. */
  readonly measure: readonly object[];
  /** Answers with the reason if it cannot serve. */
  readonly probe: string | undefined;
}

/** A question. */
export interface Question {
  readonly kind: keyof Answers;
  /** The address to listen on. */
  readonly at?: Address | undefined;
  /** The port for the answer. */
  readonly reply: MessagePort;
}

/** The answer to a question, or the reason why there is none. */
export type Answer<T> = { readonly value: T } | { readonly fault: string };

/** The first message of a thread: the reason why it cannot serve; undefined when it can listen. */
export type FirstMessage = string | undefined;

/** The message of the main thread that ends a thread, also while it starts. All others are questions. */
export const endMessage = 'end';

/** The worker data of this thread; undefined if it does not serve. */
export const threadData: ThreadData | undefined =
  isMainThread || !isThreadData(workerData) ? undefined : workerData;

function isThreadData(data: unknown): data is ThreadData {
  return typeof data === 'object' && data !== null && 'thread' in data && 'config' in data;
}
