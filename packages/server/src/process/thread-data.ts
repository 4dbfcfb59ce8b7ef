// What the main thread gives the threads that serve, and what they tell each other. Loaded before signals are received.
import { isMainThread, workerData } from 'node:worker_threads';
import type { Config } from '../config.js';
import type { StorageShare } from '../storage/open.js';
import type { Tls } from '../http/connection/server.js';

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
  /** Listens on an address, which other threads may have, too, and answers with its origin. */
  readonly listen: string;
  /** Asks clients to reconnect from now on. */
  readonly drain: undefined;
  /** Answers with its metrics, as Registry.getMetricsAsJSON returns them. */
  readonly measure: readonly object[];
  /** Answers with the reason if it cannot serve. */
  readonly probe: string | undefined;
  /** Shows that its event loop runs. */
  readonly check: undefined;
}

/** A question, whose answers arrive in any order. */
export interface Question {
  readonly id: number;
  readonly kind: keyof Answers;
  /** To listen on. */
  readonly at?: { readonly host: string; readonly port: number } | undefined;
}

/** The first message of a thread, that it can listen or why it cannot serve, and its answers. */
export type ThreadMessage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'answer'; readonly id: number; readonly answer: unknown }
  | { readonly kind: 'fault'; readonly id: number; readonly reason: string };

/** The message of the main thread that ends a thread, also while it starts. All others are questions. */
export const endMessage = 'end';

/** What this thread was given, if it is one of those that serve. */
export const threadData: ThreadData | undefined =
  isMainThread || !isThreadData(workerData) ? undefined : workerData;

function isThreadData(data: unknown): data is ThreadData {
  return typeof data === 'object' && data !== null && 'thread' in data && 'connections' in data;
}
