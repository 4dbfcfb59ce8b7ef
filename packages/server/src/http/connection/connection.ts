// One connection: what of its input Node's parser gets and when, which of its responses are pending, and how it ends.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { onRequestHookHandler } from 'fastify';

/**
 * How much the parser gets at once, in bytes, and what ends it earlier: the end of a header section, of a trailer section
 * or of a body. So it makes at most one request of each piece, which takes far more memory and time than the few bytes
 * that it may be written in, and not many chunks.
 */
const pieceLength = 1024;
const endOfSection = '\r\n\r\n';
/** How the last chunk of a body begins (RFC 9112 section 7.1); its trailer section ends the body. */
const lastChunk = '\r\n0';
/** How much a connection may have waiting in any case, in bytes. */
const freeLength = 4 * 1024;
/** How much may wait on all connections with more than that, in bytes. Beyond it, the one that waits longest is cut off. */
const mostOfAll = 32 * 1024 * 1024;
/** How much of an unwanted body is read before the connection is closed, in bytes. */
export const drainLimit = 64 * 1024;
/** How long a client may take to read the last response and stop sending, in ms. */
const lingerTime = 2_000;
/** Methods whose requests wait for their body; all others get a response without it. */
const takesBody = new Set(['POST', 'PUT', 'PATCH']);

type Done = (error?: Error | null) => void;

/** The connections with more than freeLength waiting, those first that wait longest. */
const waiting = new Set<Connection>();
/** What waits on them, in bytes. */
let waitingOfAll = 0;

/** Returns the connection on which a request arrived or a response is sent; undefined for one that was injected. */
export function connectionOf({ socket }: Pick<IncomingMessage, 'socket'>): Connection | undefined {
  const stream: Duplex = socket;
  return stream instanceof Connection ? stream : undefined;
}

/**
 * A connection as Node's HTTP server sees it. It passes on what the socket receives in small pieces, and none while a
 * request has no response or its body is not read: input that nobody can handle yet stays as it arrived, and holds back
 * the client. So the requests on a connection start in their order, each after the response to the one before (RFC 9112
 * section 9.3.2 requires this for unsafe requests): a DELETE does not overtake a POST that waits for its body.
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
  /** The end of what has been passed on: what may be the start of endOfSection or lastChunk. */
  #tail = '';
  /** Whether a section that has been passed on in part ends at the next endOfSection. */
  #isInSection = false;
  /** How much of a body of known length has not been passed on, in bytes. */
  #bodyLeft = 0;
  /** The newest request, until its response is sent and its body is complete. */
  #newest: IncomingMessage | undefined;
  /**
   * Its response, while that is open. Otherwise an idle connection would keep everything that a response refers to in
   * memory.
   */
  #response: ServerResponse | undefined;
  /** What of waitingOfAll is its own, in bytes. */
  #counted = 0;
  /** How many bytes have been discarded since it began to close. */
  #discarded = 0;

  /** @param socket - A new one; of a TLS connection after the handshake. */
  constructor(socket: Socket) {
    // Node holds as much of each body that is not read; and what is held here could have several ends.
    super({ decodeStrings: false, readableHighWaterMark: 1 });
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
    return this.#response?.writableFinished ?? true;
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

  /** As a Duplex implements it: the chunks of a response reach the operating system together. */
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

  /** Whether the parser must not get more: until a complete request has its response. */
  get #isHeld(): boolean {
    return this.#state !== 'open' || (this.#response !== undefined && this.#newest?.complete === true);
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
   * Passes on what the parser takes now. Others then have their turn, since _read waits for the next piece.
   * @returns Whether no input is left.
   */
  #passOn(): boolean {
    if (this.#isWanted) {
      this.#passOnPiece();
      // Otherwise a request with a short body would seem to be incomplete when it starts.
      if (this.#newest?.complete === false) this.#passOnPiece();
    }
    this.#count();
    return this.#input === undefined;
  }

  #passOnPiece(): void {
    // Node has paused the stream while something is held in it.
    if (this.#isHeld || this.destroyed || this.readableLength > 0) return;
    if (this.#input !== undefined) {
      this.#isWanted = false;
      this.push(this.#takePiece(this.#input));
    } else if (this.#hasEnded) {
      this.#isWanted = false;
      this.push(null);
    }
  }

  #takePiece(input: Buffer): Buffer {
    let length: number;
    if (this.#bodyLeft > 0) {
      // A body that no operation reads yet is passed on in small pieces.
      length = this.#newest?.readableFlowing === null ? pieceLength : Infinity;
      length = Math.min(length, this.#bodyLeft, input.length);
      this.#bodyLeft -= length;
    } else {
      const before = this.#tail;
      const text = before + input.toString('latin1', 0, pieceLength);
      // The content of a chunked body may have many blank lines.
      const isInContent = this.#newest?.complete === false && !this.#isInSection;
      const start = isInContent ? text.indexOf(lastChunk) : 0;
      const end = start < 0 ? -1 : text.indexOf(endOfSection, start);
      const passed = end < 0 ? text.length : end + endOfSection.length;
      length = passed - before.length;
      this.#isInSection = start >= 0 && end < 0;
      this.#tail = text.slice(end < 0 ? 1 - endOfSection.length : passed - 2, passed);
    }
    this.#input = length < input.length ? input.subarray(length) : undefined;
    return this.#input === undefined ? input : input.subarray(0, length);
  }

  /** Counts what waits on this connection; a body that is going to be read does not. */
  #count(): void {
    const { length = 0 } = this.#input ?? {};
    const waits =
      length > freeLength &&
      (this.#isHeld || (this.isPaused() && !takesBody.has(this.#newest?.method ?? '')));
    const counted = waits && !this.destroyed ? length : 0;
    if (counted === this.#counted) return;
    waitingOfAll += counted - this.#counted;
    this.#counted = counted;
    waiting.delete(this);
    if (counted > 0) waiting.add(this);
    while (waitingOfAll > mostOfAll) {
      const [longest] = waiting;
      longest!.destroy();
    }
  }

  /** Takes note of a request, which may start at once. */
  begin(request: IncomingMessage, response: ServerResponse): void {
    // `once` costs several times as much.
    response.on('close', forgetResponse);
    this.#response = response;
    this.#newest = request;
    this.#bodyLeft = Number(request.headers['content-length'] ?? 0);
  }

  /** Forgets the response, which has closed. */
  forget(): void {
    this.#response = undefined;
    if (this.#newest?.complete === true) this.#newest = undefined;
    if (this.#input !== undefined || this.#hasEnded) this.#passOnLater();
    this.#count();
  }

  /**
   * Stops reading requests. A pending response is sent first, since the client would take the error for it.
   * @param respond - Sends the error and closes the connection. It is not called if the failed request gets a response
   *   of its own, or the connection is lost or closes first.
   */
  fail(respond: () => void): void {
    if (this.#state !== 'open') return;
    this.#state = 'failed';
    const response = this.#response;
    const inBody = this.#newest?.complete === false;
    // A request that waits for the rest of its body gets the error as its response.
    if (inBody && response?.headersSent === false && takesBody.has(this.#newest?.method ?? '')) {
      respond();
      return;
    }
    const end = () => {
      if (inBody) this.close();
      else if (this.writable) respond();
    };
    if (response === undefined) end();
    else response.once('close', end);
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
  connectionOf(this.req)?.forget();
}

/** An onRequest hook that reports a request to its connection, which holds back the next one until the response. */
export const startInOrder: onRequestHookHandler = ({ raw }, reply, done) => {
  connectionOf(raw)?.begin(raw, reply.raw);
  done();
};
