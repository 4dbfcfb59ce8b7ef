// One connection: what of its input Node's parser gets and when, which of its responses are pending, and how it ends.
import { AsyncResource } from 'node:async_hooks';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { closeNotStarted } from '../../base/node/http.js';

/**
 * How much the parser gets at once, in bytes. It makes requests and chunks of all that it gets, and each takes far more
 * memory and time than the few bytes that it may be written in. A body of known length is passed on as it arrives.
 */
const pieceLength = 1024;
/** What a request that waits for earlier ones takes, in bytes: an estimate. */
const waitingRequest = 4 * 1024;
/** How much one connection may have waiting until mostAtAll, in bytes: 16 requests. */
const mostOfOne = 64 * 1024;
/** How much may wait on all connections together, in bytes. Beyond it, those with more than mostOfOne are cut off. */
const mostOfAll = 16 * 1024 * 1024;
/** Beyond this, every connection on which more would wait is cut off. */
const mostAtAll = 2 * mostOfAll;
/** How much of an unwanted body is read before the connection is closed, in bytes. */
export const drainLimit = 64 * 1024;
/** How long a client may take to read the last response and stop sending, in ms. */
const lingerTime = 2_000;
/** Methods whose requests wait for their body; all others get a response without it. */
const takesBody = new Set(['POST', 'PUT', 'PATCH']);

type Done = (error?: Error | null) => void;

/** What waits on all connections, in bytes. */
let waitingOfAll = 0;

/** Returns the connection on which a request arrived or a response is sent; undefined for one that was injected. */
export function connectionOf({ socket }: Pick<IncomingMessage, 'socket'>): Connection | undefined {
  const stream: Duplex = socket;
  return stream instanceof Connection ? stream : undefined;
}

/**
 * A connection as Node's HTTP server sees it. It passes on what the socket receives in small pieces, and none while a
 * request waits for its turn: input that nobody can handle yet stays as it arrived, and holds back the client.
 *
 * It is open until it fails or closes. A failed one has received something that is not a complete, valid request; it
 * sends its pending responses, then an error, and closes. A closing one sends what has been written, starts no further
 * request, and lasts until its socket closes.
 */
export class Connection extends Duplex {
  readonly encrypted: boolean;
  readonly remoteAddress: string | undefined;
  readonly remotePort: number | undefined;
  /** When it was opened, by performance.now(). */
  readonly openedAt = performance.now();
  /** Whether anything has arrived on it. */
  hasReceived = false;
  readonly #socket: Socket;
  #state: 'open' | 'failed' | 'closing' = 'open';
  /** What has arrived and not been passed on; while there is any, the socket is not read. */
  #input: Buffer | undefined;
  /** Whether the client has half-closed the connection, which is passed on like input. */
  #hasEnded = false;
  /** Whether the parser takes the next piece. */
  #isWanted = false;
  /** Whether the next piece is due in the next turn of the event loop. */
  #isDue = false;
  /** The length of the newest request's body, without what has been passed on since its head was parsed, in bytes. */
  #bodyLeft = 0;
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
  /** What it has added to waitingOfAll, in bytes. */
  #counted = 0;
  /** How many bytes have been discarded since it began to close. */
  #discarded = 0;

  /** @param socket - A new one; of a TLS connection after the handshake. */
  constructor(socket: Socket) {
    super({ decodeStrings: false, readableHighWaterMark: pieceLength });
    this.#socket = socket;
    this.encrypted = 'encrypted' in socket;
    ({ remoteAddress: this.remoteAddress, remotePort: this.remotePort } = socket);
    socket.allowHalfOpen = true;
    socket.on('data', this.#receive).on('end', this.#receiveEnd);
    socket.on('timeout', () => this.emit('timeout'));
    socket.on('error', (error) => this.destroy(error)).on('close', () => this.destroy());
  }

  get isClosing(): boolean {
    return this.#state === 'closing';
  }

  /** Whether every response has been passed to the operating system. */
  get hasResponded(): boolean {
    return this.#last?.writableFinished ?? true;
  }

  /** As that of a socket. */
  setTimeout(time: number, callback?: () => void): this {
    this.#socket.setTimeout(time);
    if (callback !== undefined) this.once('timeout', callback);
    return this;
  }

  override _read(): void {
    this.#isWanted = true;
    if (this.#input === undefined && !this.#hasEnded) this.#socket.resume();
    else this.#passOnLater();
  }

  override _write(chunk: Buffer | string, encoding: BufferEncoding, done: Done): void {
    this.#socket.write(chunk, encoding, this.#failFirst(done));
  }

  override _writev(chunks: { chunk: Buffer | string; encoding: BufferEncoding }[], done: Done): void {
    // Node ends each response with an empty chunk; a single write is faster.
    const [first, ...others] = chunks.filter(({ chunk }) => chunk.length > 0);
    if (first === undefined || others.length === 0) {
      this._write(first?.chunk ?? '', first?.encoding ?? 'latin1', done);
      return;
    }
    const last = others.pop()!;
    this.#socket.cork();
    for (const { chunk, encoding } of [first, ...others]) this.#socket.write(chunk, encoding);
    this.#socket.write(last.chunk, last.encoding, this.#failFirst(done));
    this.#socket.uncork();
  }

  /** As with a socket, a connection is destroyed by the time that its responses learn of it. */
  #failFirst(done: Done): Done {
    return (error) => {
      if (error) this.destroy(error);
      done(error);
    };
  }

  override _final(done: Done): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#socket.destroy();
    this.#input = undefined;
    this.#count();
    done(error);
  }

  readonly #receive = (chunk: Buffer): void => {
    this.hasReceived = true;
    if (this.#state === 'closing') {
      this.#discarded += chunk.length;
      if (this.#discarded >= drainLimit) this.#socket.pause();
      return;
    }
    this.#input = chunk;
    if (!this.#passOn()) this.#socket.pause();
  };

  readonly #receiveEnd = (): void => {
    this.#hasEnded = true;
    this.#passOn();
  };

  /** Whether the parser must not get more: until every complete request has its response. */
  get #isHeld(): boolean {
    return (
      this.#state !== 'open' ||
      this.#waiting > 0 ||
      (this.#last !== undefined && this.#newest?.complete === true)
    );
  }

  #passOnLater(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      this.#passOn();
    });
  }

  /**
   * Passes on the next piece, if the parser takes it. Others then have their turn, since _read waits for the next one.
   * @returns Whether no input is left.
   */
  #passOn(): boolean {
    this.#count();
    const input = this.#input;
    if (this.#isWanted && !this.#isHeld && !this.destroyed) {
      if (input !== undefined) {
        this.#isWanted = false;
        const length = Math.max(pieceLength, this.#bodyLeft);
        this.#bodyLeft = Math.max(0, this.#bodyLeft - input.length);
        this.#input = input.length > length ? input.subarray(length) : undefined;
        this.push(this.#input === undefined ? input : input.subarray(0, length));
      } else if (this.#hasEnded) {
        this.#isWanted = false;
        this.push(null);
      }
    }
    return this.#input === undefined;
  }

  /** Counts what waits on this connection, and cuts it off if it becomes too much. */
  #count(): void {
    const isWaiting = this.#isHeld && !this.destroyed;
    const more =
      (isWaiting ? this.#waiting * waitingRequest + (this.#input?.length ?? 0) : 0) - this.#counted;
    this.#counted += more;
    waitingOfAll += more;
    const most = this.#counted > mostOfOne ? mostOfAll : mostAtAll;
    if (more > 0 && waitingOfAll > most) this.destroy();
  }

  /**
   * Adds a request, and starts it after the responses to the earlier ones. If the connection closes first, it never
   * starts, and its response emits 'close'.
   */
  enqueue(request: IncomingMessage, response: ServerResponse, start: () => void): void {
    if (this.destroyed) {
      // Node still parses the rest of the piece.
      closeNotStarted(response);
      return;
    }
    // `once` costs several times as much.
    response.on('close', forgetResponse);
    const previous = this.#last;
    this.#previous = previous;
    this.#last = response;
    this.#newest = request;
    this.#bodyLeft = Number(request.headers['content-length'] ?? 0);
    if (previous === undefined) {
      this.#start(response, start);
      return;
    }
    this.#waiting++;
    this.#count();
    // Otherwise the request would start in the async context of the previous one.
    const context = new AsyncResource('Request');
    previous.once('close', () => {
      this.#waiting--;
      context.runInAsyncScope(() => {
        this.#start(response, start);
      });
    });
  }

  #start(response: ServerResponse, start: () => void): void {
    if (this.destroyed || this.#state === 'closing') closeNotStarted(response);
    else start();
  }

  /** Forgets a response that has closed. */
  forget(response: ServerResponse): void {
    if (this.#last === response) this.#last = undefined;
    if (this.#previous === response) this.#previous = undefined;
    if (this.#newest === response.req && response.req.complete) this.#newest = undefined;
    if (this.#input !== undefined || this.#hasEnded) this.#passOnLater();
    this.#count();
  }

  /** Calls back when all pending responses have been sent, or the connection is lost. */
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
    if (this.#state !== 'open') return;
    this.#state = 'failed';
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
        if (this.writable) this.#respondInOrder(respond);
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
    this.#input = undefined;
    this.end();
    this.#socket.resume();
    const timer = setTimeout(() => this.destroy(), lingerTime).unref();
    this.once('close', () => {
      clearTimeout(timer);
    });
  }

  /** How Node closes a connection after its last response, as that of a socket. */
  destroySoon(): void {
    this.close();
  }
}

function forgetResponse(this: ServerResponse): void {
  connectionOf(this.req)?.forget(this);
}
