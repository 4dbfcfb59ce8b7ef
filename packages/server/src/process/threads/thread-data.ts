// What the main thread gives the threads that serve, and what they tell each other. Loaded before signals are received.
import { isMainThread, workerData, type MessagePort } from 'node:worker_threads';
import type { Config } from '../config.js';
import type { StorageShare } from '../../storage/open.js';
import type { Reachable } from '../development-message.js';
import type { Tls } from '../../http/connection/server.js';

/** The worker data of a thread that serves. */
export interface ThreadData {
  /** Which of the threads it is, from 1. */
  readonly thread: number;
  /** With this thread's part of the limits that all share. */
  readonly config: Config;
  /** The descriptor to which all log, as openOutput opened it. */
  readonly output: number;
  readonly tls: Tls | undefined;
  readonly share: StorageShare;
  /** Counts the connections of all threads (http/connection/shared-connections.ts). */
  readonly connections: SharedArrayBuffer;
}

/** What the main thread asks a thread, and what that answers; `kind` says what. */
export interface Answers {
  /** Listens on an address, which other threads may have, too, and answers with how it can be reached. */
  readonly listen: Reachable;
  /** Asks clients to reconnect from now on. */
  readonly drain: undefined;
  /** Answers with its metrics, as Registry.getMetricsAsJSON returns them. */
  readonly measure: readonly object[];
  /** Answers with the reason if it cannot serve. */
  readonly probe: string | undefined;
  /** Shows that its event loop runs. */
  readonly check: undefined;
}

/** A question. */
export interface Question {
  readonly kind: keyof Answers;
  /** Where to listen. */
  readonly at?: { readonly host: string; readonly port: number } | undefined;
  /** Where the answer is sent. */
  readonly reply: MessagePort;
}

/** The answer to a question, or why it has none. */
export type Answer<T> = { readonly value: T } | { readonly fault: string };

/** The first message of a thread: why it cannot serve; undefined when it can listen. */
export type FirstMessage = string | undefined;

/** The message of the main thread that ends a thread, also while it starts. All others are questions. */
export const endMessage = 'end';

/** What this thread was given, if it is one of those that serve. */
export const threadData: ThreadData | undefined =
  isMainThread || !isThreadData(workerData) ? undefined : workerData;

function isThreadData(data: unknown): data is ThreadData {
  return typeof data === 'object' && data !== null && 'thread' in data && 'connections' in data;
}
