// Sends batches of writes and transactions to the writer thread, from every thread that serves.
import { once } from 'node:events';
import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';
import { type Outcome, StorageError, toStorageError } from '../core/interface.js';
import type { Report } from '../../base/events.js';
import type { TransactionCommitter } from '../core/transactions.js';
import type { Committer, WriteResult } from '../core/writes.js';
import type { Failure, Reply, Result, WriterBatch, WriterData, WriterRequest } from './committer.js';

/** The writer thread, for a thread that serves. It commits what it is sent, and replies in the same order. */
export interface Writer extends Committer, TransactionCommitter {
  /** Resolves with the reason if it fails permanently. */
  readonly broken: Promise<StorageError>;
  /** @throws StorageError when it has failed permanently. */
  readonly check: () => void;
  /** Disconnects, when all batches have been committed. */
  readonly close: () => Promise<void>;
}

/**
 * Starts the thread, and resolves when its connection is open.
 * @returns The committer, and a function that returns a port for another thread, which gives it to `connectToWriter`.
 * @throws StorageError when the connection cannot be opened.
 */
export async function startWriter(data: WriterData, report?: Report) {
  const thread = new Worker(new URL('./committer.js', import.meta.url), { workerData: data });
  const exited = once(thread, 'exit').then(([status]) => {
    throw new Error(`the writer exited during startup with status ${String(status)}`);
  });
  await Promise.race([once(thread, 'message'), exited]).catch((error: unknown) => {
    throw toStorageError('SQLite', error);
  });
  const send = (request: WriterRequest, transferred: readonly MessagePort[] = []) => {
    thread.postMessage(request, transferred);
  };
  // Terminating the thread in the middle of a statement could crash the process.
  const disconnect = () => {
    send('close');
  };
  const { writer, settle, fail, end } = createWriter(send, disconnect, report);
  thread.on('message', settle);
  thread.on('error', (error) => {
    fail(`SQLite: ${error.message}`, error);
  });
  thread.on('exit', end);
  const connect = () => {
    const { port1, port2 } = new MessageChannel();
    send({ port: port1 }, [port1]);
    return port2;
  };
  return { writer, connect };
}

/**
 * Connects a thread to the writer of another one. Closing the connection leaves the writer alone.
 * @param port - As `connect` of `startWriter` returned it.
 */
export function connectToWriter(port: MessagePort, report?: Report): Writer {
  const send = (request: WriterBatch) => {
    port.postMessage(request);
  };
  const disconnect = () => {
    port.close();
  };
  const { writer, settle, end } = createWriter(send, disconnect, report);
  port.on('message', settle);
  port.on('close', end);
  return writer;
}

/**
 * Creates the writer for one thread.
 * @param send - Sends a request to the writer thread.
 * @param disconnect - Called after the last reply; `end` follows.
 */
function createWriter(
  send: (request: WriterBatch) => void,
  disconnect: () => void,
  report: Report | undefined,
) {
  /** The callers of requests in flight, oldest first. */
  const waiting: {
    readonly resolve: (results: readonly Result[]) => void;
    readonly reject: (error: StorageError) => void;
  }[] = [];
  let failure: StorageError | undefined;
  let isClosing = false;
  let onBroken: (failure: StorageError) => void;
  const broken = new Promise<StorageError>((resolve) => (onBroken = resolve));
  let onEnd: () => void;
  const ended = new Promise<void>((resolve) => (onEnd = resolve));

  /** Handles the reply to the oldest request in flight. */
  const settle = ({ results, commit }: Reply) => {
    const caller = waiting.shift();
    if ('failure' in results) caller?.reject(errorOf(results));
    else caller?.resolve(results);
    if (commit !== undefined) report?.({ type: 'writes committed', ...commit });
  };
  /** Records that no more replies will arrive. Only the first reason counts. */
  const fail = (message: string, cause?: unknown) => {
    failure ??= new StorageError('unavailable', message, { cause });
    if (!isClosing) onBroken(failure);
    // These may or may not have been committed.
    for (const { reject } of waiting.splice(0))
      reject(new StorageError('unknown-outcome', message, { cause }));
  };
  /** Records that the thread, or the connection to it, has ended. */
  const end = () => {
    fail('SQLite: the writer has exited');
    onEnd();
  };
  /**
   * Sends a request, and resolves with its results.
   * @throws StorageError as in the reply; `unknown-outcome` if no reply will arrive, or `unavailable` if that was known
   *   before the call.
   */
  const request = (batch: WriterBatch): Promise<readonly Result[]> => {
    if (failure !== undefined) return Promise.reject(failure);
    return new Promise((resolve, reject) => {
      send(batch);
      waiting.push({ resolve, reject });
    });
  };
  const writer: Writer = {
    broken,
    // With several, the writer can start the next commit without waiting for an event loop.
    maxInFlight: 4,
    repeatsKeys: true,
    async commit(writes) {
      const results = await request({ writes });
      return results.map((result): WriteResult =>
        typeof result === 'object' ? errorOf(result) : (result as Outcome),
      );
    },
    async commitTransaction(subject, steps) {
      const [decision] = await request({ subject, steps });
      return decision === 'committed';
    },
    check() {
      if (failure !== undefined) throw failure;
    },
    close() {
      isClosing = true;
      disconnect();
      return ended;
    },
  };
  return { writer, settle, fail, end };
}

function errorOf({ failure, message }: Failure): StorageError {
  return new StorageError(failure, message);
}
