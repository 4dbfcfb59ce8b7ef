// One connection: passes its input to Node's parser in pieces, lets it serve one request at a time, and ends it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';

/**
 * The size of the pieces that the parser gets, in bytes. It makes a request of all that it can, and a request takes far
 * more memory and time than the few bytes that it may be written in.
 */
const pieceLength = 1024;
/** The maximum input that is discarded before the connection is closed, in bytes. */
export const drainLimit = 64 * 1024;
/** The time for a client to read the last response and stop sending, in ms. */
const lingerTime = 2_000;
/** The maximum input that waits on all connections of a server, in bytes. */
const mostWaiting = 32 * 1024 * 1024;

/** The reason why input is not served: it is not a request, came too early, or would join too much that waits. */
export type Refusal = 'malformed' | 'pipelined' | 'too_much_waiting';

/** The rules that all connections of a server share. */
export interface InputPolicy {
  /** Is told of input that is not served. */
  readonly refuse: (connection: Connection, reason: Refusal) => void;
  /** Whether connections end with their next response. */
  readonly isClosed: () => boolean;
  /** The memory of waiting input, in bytes. */
  waiting: number;
}

interface Chunk {
  chunk: Buffer | string;
  encoding: BufferEncoding;
}
type Done = (error?: Error | null) => void;

/** Returns the connection on which a request arrived or a response is sent; undefined for one that was injected. */
export function connectionOf({ socket }: Pick<IncomingMessage, 'socket'>): Connection | undefined {
  const stream: Duplex = socket;
  return stream instanceof Connection ? stream : undefined;
}

/**
 * A connection as Node's HTTP server sees it, with the face of a socket. It passes on what the socket receives in small
 * pieces, one in each turn of the event loop. A body waits until it is read; then it follows in the same turn, and one of
 * known length whole.
 *
 * It serves one request at a time: it discards input that comes behind a request before its response, and the connection
 * closes after that response (RFC 9112 sections 9.3.2 and 9.6). So a DELETE does not overtake a POST that waits for its
 * body, and thousands of tiny requests cost one response.
 */
export class Connection extends Duplex {
  readonly encrypted: boolean;
  readonly authorized: boolean | undefined;
  readonly remoteAddress: string | undefined;
  readonly remotePort: number | undefined;
  readonly localAddress: string | undefined;
  readonly localPort: number | undefined;
  readonly #socket: Socket | TLSSocket;
  readonly #policy: InputPolicy;
  /** Whether the connection is left to another protocol. */
  isReleased = false;
  /** Input that has not been passed on; while there is any, the socket is not read. */
  #input: Buffer | undefined;
  /** Whether something has been passed on since the newest request. */
  #hasBegun = false;
  /** The newest request, until its response is sent and its body is complete. */
  #request: IncomingMessage | undefined;
  /** Its response, while that is open: an idle connection keeps nothing of it in memory. */
  #response: ServerResponse | undefined;
  /** The bytes of a body of known length that have certainly not been passed on. */
  #bodyLeft = 0;
  /** Whether a client that half-closes the connection has left. */
  #endsWithClient = false;
  /** Whether no further request is served: input is discarded, and the connection closes after the pending response. */
  #isEnding = false;
  #discarded = 0;

  /** @param socket - A new one that may be half-open; of a TLS connection after the handshake. */
  constructor(socket: Socket | TLSSocket, policy: InputPolicy) {
    // Node holds as much of each body that is not read; and what is held here could have several ends.
    super({ decodeStrings: false, readableHighWaterMark: 1 });
    this.#socket = socket;
    this.#policy = policy;
    this.encrypted = 'encrypted' in socket;
    this.authorized = 'authorized' in socket ? socket.authorized : undefined;
    ({ remoteAddress: this.remoteAddress, remotePort: this.remotePort } = socket);
    ({ localAddress: this.localAddress, localPort: this.localPort } = socket);
    socket.on('data', this.#receive).on('end', this.#receiveEnd).on('timeout', this.#timeOut);
    socket.on('error', (error: Error) => this.destroy(error)).on('close', () => this.destroy());
    // Node removes its own listener from a connection that leaves HTTP.
    this.on('error', () => undefined);
  }

  /** Whether further requests may begin. */
  get isOpen(): boolean {
    return !this.#isEnding && !this.destroyed;
  }

  /** Whether nothing of a request has arrived since the last response, or ever. */
  get isIdle(): boolean {
    return this.isOpen && !this.#hasBegun && this.#response === undefined;
  }

  /** Whether the newest request has a body that nobody reads or discards yet. Node resumes the connection when they do. */
  get isBodyUnread(): boolean {
    return this.#isInBody && this.#request!.readableFlowing === null;
  }

  /** As that of a TLSSocket; undefined without TLS. */
  getPeerCertificate(isDetailed = false): object | undefined {
    return 'getPeerCertificate' in this.#socket ? this.#socket.getPeerCertificate(isDetailed) : undefined;
  }

  setNoDelay(isOn?: boolean): this {
    this.#socket.setNoDelay(isOn);
    return this;
  }

  setTimeout(time: number, callback?: () => void): this {
    this.#socket.setTimeout(time);
    if (callback !== undefined) this.once('timeout', callback);
    return this;
  }

  override _read(): void {
    if (this.#input !== undefined || this.#socket.readableEnded) setImmediate(this.#passOn);
    else this.#socket.resume();
  }

  /** As Node.js documents for streams of one's own. The chunks of a response reach the operating system together. */
  override _writev(chunks: Chunk[], done: Done): void {
    // Node ends each response with an empty chunk; a single write is faster, without a cork even more so.
    const filled = chunks.filter(({ chunk }) => chunk.length > 0);
    const last = filled.pop() ?? chunks[0]!;
    if (filled.length > 0) this.#socket.cork();
    for (const { chunk, encoding } of filled) this.#socket.write(chunk, encoding);
    this.#socket.write(last.chunk, last.encoding, (error) => {
      // As with a socket, a connection is destroyed by the time that its responses learn of it.
      if (error) this.destroy(error);
      done(error);
    });
    this.#socket.uncork();
  }

  override _final(done: Done): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#socket.destroy();
    this.#keep(undefined);
    done(error);
  }

  /** While a response is in the making, nothing needs to happen on the connection. */
  readonly #timeOut = (): void => {
    if (this.#response === undefined || this.writableLength > 0) this.emit('timeout');
  };

  readonly #receive = (chunk: Buffer): void => {
    if (this.isOpen) {
      this.#keep(chunk);
      this.#passOn();
      if (this.#input === undefined) return;
      this.#socket.pause();
      if (this.#policy.waiting <= mostWaiting) return;
      this.#policy.refuse(this, 'too_much_waiting');
      this.destroy();
    } else if ((this.#discarded += chunk.length) >= drainLimit) {
      // Behind more, nobody would see that the client leaves.
      if (this.#endsWithClient) this.destroy();
      else this.#socket.pause();
    }
  };

  readonly #receiveEnd = (): void => {
    if (this.#endsWithClient) this.destroy();
    else this.#passOn();
  };

  get #isInBody(): boolean {
    return this.#request?.complete === false;
  }

  /** Whether the body of the newest request is incomplete, and its input is read at once. */
  get #isBodyRead(): boolean {
    return this.#isInBody && this.#request!.readableFlowing === true && this.readableFlowing === true;
  }

  /** Passes on a piece, and all of a body that is read. Others then have their turn, since _read waits for the next. */
  readonly #passOn = (): void => {
    // Node has paused the stream while something is held in it.
    if (!this.isOpen || this.readableLength > 0) return;
    let input = this.#input;
    if (input !== undefined) {
      for (; input !== undefined; input = this.#isBodyRead ? this.#input : undefined) this.#passPiece(input);
    } else if (this.#socket.readableEnded && (this.#response === undefined || this.#isInBody)) {
      // A half-closed client gets its response first, unless its body is incomplete: then the response is the last.
      this.push(null);
    }
  };

  #passPiece(input: Buffer): void {
    const most = this.isReleased ? Infinity : Math.max(pieceLength, this.#isBodyRead ? this.#bodyLeft : 0);
    const length = Math.min(input.length, most);
    const piece = length < input.length ? input.subarray(0, length) : input;
    if (!this.#isInBody) {
      // A fast client has the response, and goes on, before it is known here that it is sent.
      if (this.#response?.writableEnded === true) return;
      const isBlank = !this.#hasBegun && piece.every(isLineEnd);
      // With the end of a body that arrives behind its response, a request may have begun.
      if (this.#response !== undefined || (isBlank && this.#request === undefined)) {
        this.#refuse(this.#response === undefined ? 'malformed' : 'pipelined');
        return;
      }
      this.#hasBegun = !isBlank;
      this.#request = undefined;
    }
    this.#keep(length < input.length ? input.subarray(length) : undefined);
    // A small piece that must wait does not keep a large one in memory.
    this.push(this.readableFlowing === true ? piece : Buffer.from(piece));
    // Of the piece with the head of the request, all might be body.
    this.#bodyLeft -= length;
    if (this.isBodyUnread) this.pause();
  }

  /** Keeps input for later. It counts with all of the read that it is a part of. */
  #keep(input: Buffer | undefined): void {
    this.#policy.waiting += (input?.buffer.byteLength ?? 0) - (this.#input?.buffer.byteLength ?? 0);
    this.#input = input;
  }

  /** Takes note of a request. @returns Whether it has its turn; otherwise it must not be served. */
  begin(request: IncomingMessage, response: ServerResponse): boolean {
    if (this.isOpen && this.#response !== undefined) this.#refuse('pipelined');
    if (!this.isOpen) return false;
    // `once` costs several times as much.
    response.on('close', this.#forgetResponse);
    this.#request = request;
    this.#response = response;
    this.#hasBegun = false;
    const { 'content-length': length = 0, 'transfer-encoding': coding } = request.headers;
    this.#bodyLeft = coding === undefined ? Number(length) : 0;
    return true;
  }

  readonly #forgetResponse = (): void => {
    this.#response = undefined;
    this.#endsWithClient = false;
    if (!this.#isInBody) this.#request = undefined;
    if (this.#isEnding || this.readableEnded || this.#policy.isClosed()) this.destroySoon();
    else if (this.#input !== undefined || this.#socket.readableEnded) setImmediate(this.#passOn);
  };

  /** Notes that the newest response has no end of its own, so that a client that half-closes the connection has left. */
  endWithClient(): void {
    this.#endsWithClient = true;
    if (this.#socket.readableEnded || this.#discarded >= drainLimit) this.destroy();
  }

  /**
   * Leaves the connection to another protocol: it then gets all input as it arrives.
   * @returns Whether that is possible; not before the response to an earlier request.
   */
  release(): boolean {
    this.isReleased = this.isOpen && this.#response === undefined;
    return this.isReleased;
  }

  /**
   * Notes that input has failed.
   * @returns Whether the error is to be sent: as the response to a request whose body it is in, or to what is no request.
   *   Otherwise, the client would take it for another response, and the connection closes without it.
   */
  fail(): boolean {
    const isAnswer = this.#isInBody ? this.#response?.headersSent === false : this.#response === undefined;
    if (isAnswer) this.#response = undefined;
    else this.destroySoon();
    return isAnswer;
  }

  #refuse(reason: Refusal): void {
    this.#policy.refuse(this, reason);
    this.destroySoon();
  }

  /**
   * Closes the connection after the pending response (RFC 9112 section 9.6, lingering close); Node calls this after the
   * last one, as with a socket. An immediate close while the client still sends would reset the connection and lose the
   * response. Further input is read within limits of bytes and time, but no request in it starts.
   */
  destroySoon(): void {
    this.#isEnding = true;
    this.#keep(undefined);
    this.#socket.resume();
    if (this.#response !== undefined) {
      if (!this.#response.headersSent) this.#response.setHeader('connection', 'close');
    } else if (!this.writableEnded) {
      this.end();
      const timer = setTimeout(() => this.destroy(), lingerTime).unref();
      this.once('close', () => {
        clearTimeout(timer);
      });
    }
  }
}

function isLineEnd(byte: number): boolean {
  return byte === 0x0a || byte === 0x0d;
}
