// A connection on which a test writes bytes as it likes, and reads the responses one by one.
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { checkResponse, type HttpResponse } from './contract-check.js';
import { parseResponse } from './http-responses.js';
import { dial, type Connection } from './transport.js';

/** A response on a connection; `json` is its body if that is JSON. */
export interface RawResponse extends HttpResponse {
  readonly json?: unknown;
}

/** The bytes of requests, with the given header lines, each with its end. */
export const listRequest = (lines: string) => `GET /plants HTTP/1.1\r\n${lines}\r\n`;
export const createHead = (lines: string) =>
  `POST /plants HTTP/1.1\r\n${lines}Content-Type: application/json\r\n`;
export const createRequest = (lines: string, body: string) =>
  `${createHead(lines)}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

/** A client's side of a connection. */
export class RawConnection {
  readonly socket: Socket;
  /** What has arrived and is not read; joined only when it is looked at, since joining copies it. */
  #chunks: Buffer[] = [];
  #ended = false;
  #arrived: () => void = () => undefined;

  readonly #tcp: Socket;

  private constructor({ socket, tcp }: Connection) {
    this.socket = socket;
    this.#tcp = tcp;
    socket.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk);
      this.#arrived();
    });
    const end = () => {
      this.#ended = true;
      this.#arrived();
    };
    socket.on('close', end).on('end', end).on('error', end);
  }

  static async open(port: number): Promise<RawConnection> {
    const connection = dial({ port });
    const opened = new RawConnection(connection);
    const { socket, tcp } = connection;
    await once(tcp, 'connect');
    // The session's ticket is the end of the handshake on both sides; but the server may close the connection instead.
    if (socket !== tcp) await new Promise((done) => socket.once('session', done).once('close', done));
    // In the iteration of the event loop that reads the ticket, nothing can be written.
    await setImmediate();
    return opened;
  }

  /** Leaves without a good-bye, and without anything that was sent and is not yet read. */
  reset(): void {
    this.#tcp.resetAndDestroy();
  }

  send(bytes: string | Buffer): void {
    this.socket.write(bytes);
  }

  /** Resolves when the server has closed the connection, to what it sent and no call has returned. */
  async rest(): Promise<string> {
    while (!this.#ended) await this.#more();
    return this.#unread().toString('latin1');
  }

  /**
   * The next response, checked against the contract; undefined when the server closes the connection instead.
   * Interim responses (1xx) are returned as they are.
   * @param method - The method of its request.
   * @param url - Its target.
   */
  async receive(method = 'GET', url = '/unknown'): Promise<RawResponse | undefined> {
    let parsed: ReturnType<typeof parseResponse>;
    while ((parsed = parseResponse(this.#unread(), () => method === 'HEAD')) === undefined) {
      if (this.#ended && this.#unread().length === 0) return undefined;
      if (this.#ended) throw new Error('the connection closed in the middle of a response');
      await this.#moreOfResponse();
    }
    const { response, length } = parsed;
    this.#chunks = [this.#unread().subarray(length)];
    if (response.status >= 200) checkResponse(method, url, response);
    const isJson = response.text !== '' && response.headers['content-type'] === 'application/json';
    return isJson ? { ...response, json: JSON.parse(response.text) as unknown } : response;
  }

  /** Waits for what may complete a response: parsing a long one again with each chunk would take quadratic time. */
  async #moreOfResponse(): Promise<void> {
    const begun = this.#unread();
    const end = begun.indexOf('\r\n\r\n') + 4;
    const length = /^content-length: (\d+)\r$/im.exec(begun.subarray(0, end).toString('latin1'))?.[1];
    let missing = length === undefined ? Infinity : end + Number(length) - begun.length;
    let tail = begun.subarray(-6).toString('latin1');
    for (let seen = this.#chunks.length; ; seen = this.#chunks.length) {
      await this.#more();
      for (const chunk of this.#chunks.slice(seen)) {
        missing -= chunk.length;
        tail = tail.slice(-6) + chunk.toString('latin1');
      }
      if (this.#ended || end < 4 || missing <= 0 || tail.includes('\r\n0\r\n\r\n')) return;
    }
  }

  #unread(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0]!;
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#arrived = resolve;
    });
  }
}
