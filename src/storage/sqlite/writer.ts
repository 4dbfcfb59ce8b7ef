// Starts the thread that writes to SQLite.
import { Worker } from 'node:worker_threads';
import { StorageError } from '../interface.js';
import type { WriteObserver } from '../group-writer.js';
import type { Committer } from '../writes.js';
import { Packer, RemoteWriter } from './batch-messages.js';
import type { WriterData, WriterReply, WriterRequest } from './writer-thread.js';

/**
 * Starts the thread, and resolves when its connection is open.
 * @throws StorageError when the connection cannot be opened.
 */
export async function startWriter(data: WriterData, observer?: WriteObserver): Promise<Committer> {
  const thread = new Worker(new URL('./writer-thread.js', import.meta.url), { workerData: data });
  await new Promise<void>((resolve, reject) => {
    thread.once('message', () => {
      resolve();
    });
    thread.once('error', (error) => {
      reject(new StorageError('unavailable', `SQLite: ${error.message}`, { cause: error }));
    });
    thread.once('exit', (code) => {
      reject(new StorageError('unavailable', `SQLite: the writer exited during startup with status ${code}`));
    });
  });
  // Terminating the thread in the middle of a statement could crash the process.
  const writer = new RemoteWriter(new Packer(data.collections), (request) => {
    thread.postMessage(request satisfies WriterRequest);
  });
  thread.on('message', ({ results, commit }: WriterReply) => {
    for (const result of results) writer.settle(result);
    if (commit !== undefined) observer?.committed?.(commit.rows, commit.seconds);
  });
  thread.on('error', (error) => {
    writer.fail(`SQLite: ${error.message}`, error);
  });
  thread.on('exit', () => {
    writer.ended('SQLite: the writer has exited');
  });
  return writer;
}
