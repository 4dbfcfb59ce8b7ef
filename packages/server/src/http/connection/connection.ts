// One connection: passes its input to Node's parser in pieces, lets it serve one request at a time, and ends it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import type { onRequestHookHandler } from 'fastify';

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
/** The methods whose bodies Fastify reads, unless the route says something else. */
const methodsWithBody = new Set(['POST', 'PUT', 'PATCH']);

type Done = (error?: Error | null) => void;
/** Why input is not served: it is no request, came before its turn, or waited while too much did. */
export type Refusal = 'malformed' | 'pipelined' | 'too_much_waiting';

/** What the connections of a server have in common: what to do with input that is not served, and how much waits. */
export class InputPolicy {
  readonly refuse: (connection: Connection, reason: Refusal) => void;
  /** The bytes that wait on each connection, in the order in which the connections last passed something on. */
  readonly #waiting = new Map<Connection, number>();
  #sum = 0;

  constructor(refuse: InputPolicy['refuse']) {
    this.refuse = refuse;
  }

  /** Records the bytes that wait on a connection. If the sum is too large, closes those that have waited longest. */
  wait(connection: Connection, bytes: number): void {
    this.#sum += bytes - (this.#waiting.get(connection) ?? 0);
    this.#waiting.delete(connection);
    if (bytes > 0) this.#waiting.set(connection, bytes);
    while (this.#sum > mostWaiting) {
      const [stalest] = this.#waiting.keys();
      this.refuse(stalest!, 'too_much_waiting');
      stalest!.destroy();
    }
  }
}

/** Returns the connection on which a request arrived or a response is sent; undefined for one that was injected. */
export function connectionOf({ socket }: Pick<IncomingMessage, 'socket'>): Connection | undefined {
  const stream: Duplex = socket;
  return stream instanceof Connection ? stream : undefined;
}

/**
 * A connection as Node's HTTP server sees it, with the face of a socket. It passes on what the socket receives in small
 * pieces, one in each turn of the event loop. A body that is read follows in the same turn until it is complete; one of
 * known length follows as it arrives.
 *
 * It serves one request at a time: when another one arrives before the response, it is not served, and the connection
 * closes after that response (RFC 9112 sections 9.3.2 and 9.6). So a DELETE does not overtake a POST that waits for its
 * body, and thousands of tiny requests cost one response.
 *
 * An open connection becomes `ending` when a request came before its turn, or something that is no request: it discards
 * its input and sends the pending response. A `closing` one sends what has been written, and lasts until its socket
 * closes. A `released` one is left to another protocol.
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
  #state: 'open' | 'ending' | 'closing' | 'released' = 'open';
  /** Input that has not been passed on; while there is any, the socket is not read. */
  #input: Buffer | undefined;
  /** The bytes of it that the policy has recorded, and the number of bytes that were discarded. */
  #waiting = 0;
  #discarded = 0;
  /** Whether the client has half-closed the connection. That is passed on like input, or ends the connection at once. */
  #hasEnded = false;
  #endsWithClient = false;
  /** Whether a piece is due in the next turn of the event loop. */
  #isDue = false;
  /** Whether it has had a request, and whether something of one has been passed on since the newest. */
  #hasServed = false;
  #hasBegun = false;
  /** The newest request, until its response is sent and its body is complete. */
  #request: IncomingMessage | undefined;
  /** Its response, while that is open: an idle connection keeps nothing of it in memory. */
  #response: ServerResponse | undefined;
  /** The bytes of a body of known length that have certainly not been passed on. */
  #bodyLeft = 0;
  /** Whether the response waits for the body. */
  #readsBody = false;

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
    socket.on('data', this.#receive).on('end', this.#receiveEnd);
    socket.on('timeout', () => this.emit('timeout'));
    socket.on('error', (error: Error) => this.destroy(error)).on('close', () => this.destroy());
  }

  get isClosing(): boolean {
    return this.#state === 'closing';
  }

  /** Whether every response has been passed to the operating system. */
  get hasResponded(): boolean {
    return this.#response?.writableFinished ?? true;
  }

  /** Whether nothing of a request has arrived since the last response, or ever: `unused`. */
  get idleness(): 'idle' | 'unused' | undefined {
    const isPending = this.#response !== undefined || this.#request?.complete === false;
    if (this.#state !== 'open' || isPending || this.#hasBegun || this.#input !== undefined) return undefined;
    return this.#hasServed ? (this.writableLength > 0 ? undefined : 'idle') : 'unused';
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
    if (this.#input !== undefined || this.#hasEnded) this.#passOnLater();
    else if (this.#isReceiving) this.#socket.resume();
  }

  override _write(chunk: Buffer | string, encoding: BufferEncoding, done: Done): void {
    this.#socket.write(chunk, encoding, (error) => {
      // As with a socket, a connection is destroyed by the time that its responses learn of it.
      if (error) this.destroy(error);
      done(error);
    });
  }

  /** As a Duplex implements it: the chunks of a response reach the operating system together. */
  override _writev(chunks: { chunk: Buffer | string; encoding: BufferEncoding }[], done: Done): void {
    // Node ends each response with an empty chunk; a single write is faster.
    const filled = chunks.filter(({ chunk }) => chunk.length > 0);
    const last = filled.pop() ?? chunks[0]!;
    this.#socket.cork();
    for (const { chunk, encoding } of filled) this.#socket.write(chunk, encoding);
    this._write(last.chunk, last.encoding, done);
    this.#socket.uncork();
  }

  override _final(done: Done): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#socket.destroy();
    this.#discard();
    done(error);
  }

  readonly #receive = (chunk: Buffer): void => {
    if (this.#isReceiving) {
      this.#input = chunk;
      this.#passOn();
    } else this.#discarded += chunk.length;
    if (this.#input !== undefined || this.#discarded >= drainLimit) this.#socket.pause();
  };

  readonly #receiveEnd = (): void => {
    this.#hasEnded = true;
    if (this.#endsWithClient) this.destroy();
    else this.#passOn();
  };

  /** Whether input is passed on, and not discarded. */
  get #isReceiving(): boolean {
    return (this.#state === 'open' || this.#state === 'released') && !this.destroyed;
  }

  /** Whether the body of the newest request is incomplete, and its input is read at once. */
  get #isBodyRead(): boolean {
    const request = this.#request;
    return request?.complete === false && request.readableFlowing === true && this.readableFlowing === true;
  }

  #passOnLater(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      this.#passOn();
    });
  }

  /** What has arrived of a body that is read, and is passed on in the same turn. */
  get #bodyInput(): Buffer | undefined {
    return this.#isReceiving && this.#isBodyRead ? this.#input : undefined;
  }

  /** Passes on a piece, and all of a body that is read. Others then have their turn, since _read waits for the next. */
  #passOn(): void {
    // Node has paused the stream while something is held in it.
    if (!this.#isReceiving || this.readableLength > 0) return;
    if (this.#input !== undefined) {
      for (let input: Buffer | undefined = this.#input; input !== undefined; input = this.#bodyInput)
        this.#passPiece(input);
      this.#noteWaiting();
    } else if (this.#hasEnded && (this.#response === undefined || this.#request?.complete === false)) {
      // A half-closed client gets its response first, unless that waits for the rest of its body.
      this.push(null);
    }
  }

  #passPiece(input: Buffer): void {
    const most = this.#state === 'released' ? Infinity : this.#isBodyRead ? this.#bodyLeft : 0;
    const length = Math.min(input.length, Math.max(pieceLength, most));
    const piece = length < input.length ? input.subarray(0, length) : input;
    this.#input = length < input.length ? input.subarray(length) : undefined;
    if (!this.#hasBegun && this.#state === 'open' && this.#request?.complete !== false) {
      this.#hasBegun = piece.some(isOfRequest);
      if (!this.#hasBegun) {
        this.#policy.refuse(this, 'malformed');
        return;
      }
    }
    // A small piece that must wait does not keep a large one in memory.
    this.push(this.readableFlowing === true ? piece : Buffer.from(piece));
    // Of the piece with the head of the request, all might be body.
    this.#bodyLeft -= length;
  }

  /** Reports waiting input to the policy. The rest of a large piece does not keep all of it in memory. */
  #noteWaiting(): void {
    if (this.#input === undefined && this.#waiting === 0) return;
    if (this.#input !== undefined && this.#input.buffer.byteLength > 2 * this.#input.length) {
      const rest = Buffer.allocUnsafeSlow(this.#input.length);
      this.#input.copy(rest);
      this.#input = rest;
    }
    this.#waiting = this.#input?.buffer.byteLength ?? 0;
    this.#policy.wait(this, this.#waiting);
  }

  #discard(): void {
    this.#input = undefined;
    this.#noteWaiting();
  }

  /** Takes note of a request. @returns Whether it has its turn; otherwise it must not be served. */
  begin(request: IncomingMessage, response: ServerResponse): boolean {
    if (this.#state !== 'open') return false;
    const pending = this.#response;
    if (pending !== undefined) {
      this.#policy.refuse(this, 'pipelined');
      if (!pending.headersSent) pending.setHeader('connection', 'close');
      this.#endAfterResponse(() => {
        this.close();
      });
      return false;
    }
    // `once` costs several times as much.
    response.on('close', forgetResponse);
    this.#request = request;
    this.#response = response;
    this.#hasServed = true;
    this.#hasBegun = this.#readsBody = false;
    const { 'content-length': length = 0, 'transfer-encoding': coding } = request.headers;
    this.#bodyLeft = coding === undefined ? Number(length) : 0;
    return true;
  }

  /** Notes that the response to the newest request waits for its body. */
  awaitBody(): void {
    this.#readsBody = true;
  }

  /** Notes that the newest response has no end of its own, so that a client that half-closes the connection has left. */
  endWithClient(): void {
    this.#endsWithClient = true;
    if (this.#hasEnded) this.destroy();
  }

  /** Forgets the response, which has closed. */
  forget(): void {
    this.#response = undefined;
    this.#endsWithClient = false;
    if (this.#request?.complete === true) this.#request = undefined;
    if (this.#input !== undefined || this.#hasEnded) this.#passOnLater();
  }

  /**
   * Leaves the connection to another protocol: it then gets all input as it arrives.
   * @returns Whether that is possible; not before the response to an earlier request.
   */
  release(): boolean {
    if (this.#state !== 'open' || this.#response !== undefined) return false;
    this.#state = 'released';
    return true;
  }

  /**
   * Stops reading requests. A pending response is sent first, since the client would take the error for it.
   * @param respond - Sends the error and closes the connection. It is not called if the failed request gets a response
   *   of its own, or the connection is lost or closes first.
   */
  fail(respond: () => void): void {
    if (this.#state !== 'open') return;
    const inBody = this.#request?.complete === false;
    // A request that waits for the rest of its body gets the error as its response.
    if (inBody && this.#readsBody && this.#response?.headersSent === false) respond();
    else
      this.#endAfterResponse(() => {
        if (inBody) this.close();
        else if (this.writable) respond();
      });
  }

  #endAfterResponse(end: () => void): void {
    this.#state = 'ending';
    this.#discard();
    this.#socket.resume();
    if (this.#response === undefined) end();
    else this.#response.once('close', end);
  }

  /**
   * Closes the connection after what has been written (RFC 9112 section 9.6, lingering close). An immediate close while
   * the client still sends would reset the connection and lose the response. Further input is read within limits of
   * bytes and time, but no request in it starts.
   */
  close(): void {
    if (this.#state === 'closing') return;
    this.#state = 'closing';
    this.#discard();
    this.end();
    this.#socket.resume();
    const timer = setTimeout(() => this.destroy(), lingerTime).unref();
    this.once('close', () => {
      clearTimeout(timer);
    });
  }

  /** Node closes a connection by this method after its last response, as it does with a socket. */
  destroySoon(): void {
    this.close();
  }
}

function isOfRequest(byte: number): boolean {
  return byte !== 0x0a && byte !== 0x0d;
}

function forgetResponse(this: ServerResponse): void {
  connectionOf(this.req)?.forget();
}

/** An onRequest hook that notes on a request's connection whether its response waits for its body. */
export const tellOfBody: onRequestHookHandler = ({ raw, routeOptions }, _reply, done) => {
  if (routeOptions.config.readsBody ?? methodsWithBody.has(raw.method ?? '')) connectionOf(raw)?.awaitBody();
  done();
};
