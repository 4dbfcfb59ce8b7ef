// The state of one connection: which of its responses are pending, and how it ends.
import { AsyncResource } from 'node:async_hooks';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { closeNotStarted, ignoreEnd } from '../../base/node/http.js';

/** How many requests may wait on one connection before the server stops reading from it. */
const pipelineDepth = 16;
/**
 * How many requests may wait on all connections together. Node parses all that it has read at once, up to thousands of
 * requests with 2 kB each: beyond this number, a connection on which more than pipelineDepth wait is cut off.
 */
const mostWaiting = 4_096;
/** How much of an unwanted body is read before the connection is closed, in bytes. */
export const drainLimit = 64 * 1024;
/** How long a client may take to read the last response and stop sending, in ms. */
const lingerTime = 2_000;
/** Methods whose requests wait for their body; all others get a response without it. */
const takesBody = new Set(['POST', 'PUT', 'PATCH']);

let waiting = 0;
const connections = new WeakMap<Socket, Connection>();

/** Returns the connection of a socket; of a TLS socket if requests arrive on one. */
export function connectionOf(socket: Socket): Connection {
  let connection = connections.get(socket);
  if (connection === undefined) {
    connection = new Connection(socket);
    connections.set(socket, connection);
  }
  return connection;
}

/**
 * A connection is open until it fails or closes. A failed one has received something that is not a complete, valid
 * request; it sends its pending responses, then an error, and closes. A closing one sends what has been written,
 * starts no further request, and lasts until its socket closes.
 */
export class Connection {
  readonly #socket: Socket;
  #state: 'open' | 'failed' | 'closing' = 'open';
  /** The newest request, until its response is sent and its body is complete. */
  #newest: IncomingMessage | undefined;
  /**
   * The responses to the newest request and the one before it, while they are open. Otherwise an idle connection would
   * keep everything that a response refers to in memory.
   */
  #last: ServerResponse | undefined;
  #previous: ServerResponse | undefined;
  /** The number of requests that wait for earlier ones. */
  #waiting = 0;

  /** Use connectionOf: each socket has only one. */
  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get isClosing(): boolean {
    return this.#state === 'closing';
  }

  /** Whether every response has been passed to the operating system. */
  get hasResponded(): boolean {
    return this.#last?.writableFinished ?? true;
  }

  /**
   * Adds a request, and starts it after the responses to the earlier ones. If the connection closes first, it never
   * starts, and its response emits 'close'.
   */
  enqueue(request: IncomingMessage, response: ServerResponse, start: () => void): void {
    if (this.#socket.destroyed) {
      // Node still parses what it has read.
      closeNotStarted(response);
      return;
    }
    // `once` costs several times as much.
    response.on('close', forgetResponse);
    const previous = this.#last;
    this.#previous = previous;
    this.#last = response;
    this.#newest = request;
    if (previous === undefined) {
      this.#start(response, start);
      return;
    }
    waiting++;
    if (++this.#waiting > pipelineDepth) {
      if (waiting > mostWaiting) this.#socket.destroy();
      // At once, it would have no effect: Node resumes the socket at the end of each request.
      else process.nextTick(this.#pauseIfFull);
    }
    // Otherwise the request would start in the async context of the previous one.
    const context = new AsyncResource('Request');
    previous.once('close', () => {
      waiting--;
      this.#waiting--;
      // One read can contain several requests: resuming after every response would let the queue grow.
      if (this.#state === 'open' && this.#waiting <= pipelineDepth) this.#socket.resume();
      context.runInAsyncScope(() => {
        this.#start(response, start);
      });
    });
  }

  readonly #pauseIfFull = (): void => {
    if (this.#state === 'open' && this.#waiting > pipelineDepth) this.#socket.pause();
  };

  #start(response: ServerResponse, start: () => void): void {
    if (this.#socket.destroyed || this.#state === 'closing') closeNotStarted(response);
    else start();
  }

  /** Forgets a response that has closed. */
  forget(response: ServerResponse): void {
    if (this.#last === response) this.#last = undefined;
    if (this.#previous === response) this.#previous = undefined;
    if (this.#newest === response.req && response.req.complete) this.#newest = undefined;
  }

  /** Calls back when all pending responses have been sent, or their connection is lost. */
  whenResponded(then: () => void): void {
    if (this.#last?.closed === false) this.#last.once('close', then);
    else then();
  }

  /**
   * Stops reading requests. Pending responses are sent first, since the client would take the error for one of them.
   * @param respond - Sends the error and closes the connection. It is not called if the failed request gets a response
   *   of its own, or the connection is lost or closes first.
   */
  fail(respond: () => void): void {
    if (this.#state === 'closing') return;
    // For any further input, the parser would report the same error again.
    this.#socket.pause();
    if (this.#state === 'failed') return;
    this.#state = 'failed';
    // On 'end', Node would close the connection after the pending responses, before the error.
    ignoreEnd(this.#socket);
    this.#respondInOrder(respond);
  }

  #respondInOrder(respond: () => void): void {
    const inBody = this.#newest?.complete === false;
    // A request that waits for the rest of its body gets the error as its response.
    const getsError =
      inBody && this.#last?.headersSent === false && takesBody.has(this.#newest?.method ?? '');
    const pending = getsError ? this.#previous : this.#last;
    if (pending?.closed === false) {
      pending.once('close', () => {
        if (this.#socket.writable) this.#respondInOrder(respond);
      });
    } else if (inBody && !getsError) {
      this.close();
    } else {
      respond();
    }
  }

  /**
   * Closes the connection after what has been written (RFC 9112 section 9.6, lingering close). An immediate close while
   * the client still sends would reset the connection and lose the response. Further input is read within limits of
   * bytes and time, but no request in it starts.
   */
  close(): void {
    if (this.#state === 'closing') return;
    this.#state = 'closing';
    const socket = this.#socket;
    socket.end();
    let discarded = 0;
    const discard = () => {
      socket.on('data', (chunk: Buffer) => {
        discarded += chunk.length;
        if (discarded >= drainLimit) socket.pause();
      });
    };
    // Node's parser reads a connection without the stream, and starts again on 'resume', until there is such a listener.
    if (socket.isPaused()) socket.once('resume', discard);
    else discard();
    socket.resume();
    const timer = setTimeout(() => socket.destroy(), lingerTime).unref();
    socket.once('close', () => {
      clearTimeout(timer);
    });
  }
}

function forgetResponse(this: ServerResponse): void {
  connectionOf(this.req.socket).forget(this);
}
