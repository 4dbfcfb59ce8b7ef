// The worker's end of the relay: sends batches to the writer thread of the supervisor.
import { connect, type Socket } from 'node:net';
import { StorageError, toStorageError } from '../../domain/storage.js';
import type { WriteObserver } from '../group-writer.js';
import type { Committer, Result, Write } from '../writes.js';
import { BatchSender, maxInFlight, type Packer } from './batch.js';
import type { StoreFile } from './files.js';
import {
  lineOf,
  longestReply,
  onLine,
  openSocketPath,
  parseGreeting,
  parseReply,
  type Greeting,
} from './relay-protocol.js';

const peer = 'the process that writes';

/** A connection to the writer of another process. */
export class RelayedWriter implements Committer {
  readonly maxInFlight = maxInFlight;
  readonly repeatsKeys = true;
  readonly #socket: Socket;
  readonly #batches: BatchSender;
  readonly #closed: Promise<void>;
  #closing = false;
  readonly broken: Promise<StorageError>;
  /** The files that the writer has open; the first one is the database. */
  readonly files: readonly StoreFile[];

  /**
   * Connects to a process that receives batches.
   * @param path - The path of its socket.
   * @throws StorageError when no process accepts the connection.
   */
  static async connect(path: string, packer: Packer, observer?: WriteObserver): Promise<RelayedWriter> {
    let release: (() => void) | undefined;
    try {
      const opened = openSocketPath(path);
      release = opened.release;
      const socket = connect(opened.address);
      return await new Promise<RelayedWriter>((resolve, reject) => {
        socket.once('error', reject);
        socket.once('close', () => {
          reject(new Error('it does not accept the connection'));
        });
        let receive = (line: string) => {
          const writer = new RelayedWriter(socket, packer, parseGreeting(line));
          receive = (next) => {
            writer.#receive(next, observer);
          };
          resolve(writer);
        };
        onLine(socket, longestReply, (line) => {
          receive(line);
        });
      });
    } catch (error) {
      throw toStorageError(peer, error);
    } finally {
      release?.();
    }
  }

  private constructor(socket: Socket, packer: Packer, { files, longestLine }: Greeting) {
    this.#socket = socket;
    this.files = files;
    this.#batches = new BatchSender(packer, (batch) => {
      const line = lineOf(batch);
      if (line.length > longestLine) {
        throw new StorageError('overloaded', 'a write is too large for the queue of all processes together');
      }
      // After the end of the connection, the event "close" settles the batch.
      if (socket.writable) socket.write(line);
    });
    let fault: Error | undefined;
    // The event "close" follows.
    socket.on('error', (error) => (fault ??= error));
    this.broken = new Promise((resolve) => {
      socket.once('close', () => {
        const reason = fault === undefined ? `${peer} has exited` : `${peer}: ${fault.message}`;
        const broken = this.#batches.fail(reason, fault);
        if (!this.#closing) resolve(broken);
      });
    });
    this.#closed = new Promise((resolve) => {
      socket.once('close', () => {
        resolve();
      });
    });
  }

  #receive(line: string, observer: WriteObserver | undefined): void {
    const { result, commit } = parseReply(line);
    this.#batches.settle(result);
    if (commit !== undefined) observer?.committed?.(commit.rows, commit.seconds);
  }

  commit(batch: readonly Write[]): Promise<readonly Result[]> {
    return this.#batches.commit(batch);
  }

  /** @throws StorageError when the process that writes can no longer be reached. */
  check(): void {
    this.#batches.check();
  }

  /** Disconnects. The thread belongs to the other process. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#socket.end();
    await this.#closed;
  }
}
