// A load generator that keeps a number of connections busy, one request at a time on each, and checks every status. It
// parses only the HTTP that these servers produce: undici, autocannon and node:http cost more CPU than the fastest
// servers, so the benchmark would measure them instead.
import { once } from 'node:events';
import { connect } from 'node:net';
import { createHistogram } from 'node:perf_hooks';

const headEnd = '\r\n\r\n';
const lastChunk = '0\r\n\r\n';

/**
 * Returns the bytes of a request as a Latin-1 string.
 * @param {{ method: string, path: string, token?: string | undefined, body?: string | undefined }} request
 */
export function requestText({ method, path, token, body }) {
  return (
    `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n` +
    (token === undefined ? '' : `Authorization: Bearer ${token}\r\n`) +
    (body === undefined ? '' : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`) +
    `\r\n${body ?? ''}`
  );
}

/**
 * @typedef {object} Load
 * @property {number} port - The port of a server on 127.0.0.1.
 * @property {number} connections - The number of concurrent connections.
 * @property {number} time - How long to start new requests, in ms.
 * @property {() => string | undefined} next - Returns the next request, or undefined if there are no more.
 * @property {(status: number) => boolean} [expect] - Whether a status is expected; 200, 201 and 204 by default.
 */

/**
 * @typedef {object} LoadResult
 * @property {number} requests - The number of completed requests.
 * @property {number} rate - Requests per second.
 * @property {number} p50 - The median latency, in ms.
 * @property {number} p99 - The 99th percentile of the latency, in ms.
 * @property {number} cpu - This process's share of one core, 0 to 1; near 1, the generator is the bottleneck.
 */

/**
 * Puts a server under load.
 * @param {Load} load
 * @returns {Promise<LoadResult>}
 * @throws Error on an unexpected status, and when a connection is lost.
 */
export async function putUnderLoad({ port, connections, time, next, expect = isSuccess }) {
  const latencies = createHistogram();
  const open = Array.from({ length: connections }, () => new Connection(port));
  try {
    await Promise.all(open.map(({ socket }) => once(socket, 'connect')));
    const cpu = process.cpuUsage();
    const begin = performance.now();
    /** @param {Connection} connection @returns {Promise<void>} */
    const keepBusy = (connection) =>
      new Promise((resolve, reject) => {
        let started = begin;
        const start = () => {
          started = performance.now();
          const request = started < begin + time ? next() : undefined;
          if (request === undefined) resolve();
          else connection.socket.write(request, 'latin1');
        };
        connection.onResponse = (status) => {
          latencies.record(Math.ceil((performance.now() - started) * 1e6));
          if (expect(status)) start();
          else reject(new Error(`unexpected status ${status}`));
        };
        connection.socket.on('error', reject);
        connection.socket.on('close', () => reject(new Error('a connection was lost')));
        start();
      });
    await Promise.all(open.map(keepBusy));
    const seconds = (performance.now() - begin) / 1_000;
    const { user, system } = process.cpuUsage(cpu);
    const requests = latencies.count;
    return {
      ...{ requests, rate: requests / seconds, cpu: (user + system) / 1e6 / seconds },
      p50: latencies.percentile(50) / 1e6,
      p99: latencies.percentile(99) / 1e6,
    };
  } finally {
    for (const { socket } of open) socket.destroy();
  }
}

/** @param {number} status */
function isSuccess(status) {
  return status === 200 || status === 201 || status === 204;
}

/** A connection, which finds the end of each response, however it is split into pieces. */
class Connection {
  /** @type {(status: number) => void} */
  onResponse = () => {};
  #status = 0;
  /** An incomplete header section, or the last bytes of a body. */
  #kept = '';
  /** The number of bytes that are missing; infinite if the body is chunked. */
  #left = 0;

  /** @param {number} port */
  constructor(port) {
    this.socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.socket.on('data', (/** @type {Buffer} */ piece) => this.#read(piece));
  }

  /** @param {Buffer} piece */
  #read(piece) {
    /** Where the body begins. */
    let from = 0;
    if (this.#status === 0) {
      const text = this.#kept + piece.toString('latin1');
      const end = text.indexOf(headEnd);
      if (end === -1) {
        this.#kept = text;
        return;
      }
      from = end + headEnd.length - this.#kept.length;
      this.#kept = '';
      const head = text.slice(0, end).toLowerCase();
      this.#status = Number(head.slice(9, 12));
      const isChunked = head.includes('\r\ntransfer-encoding: chunked');
      this.#left = isChunked ? Infinity : Number(/\r\ncontent-length: (\d+)/.exec(head)?.[1] ?? 0);
    }
    this.#left -= piece.length - from;
    const last = piece.toString('latin1', Math.max(from, piece.length - lastChunk.length));
    this.#kept = (this.#kept + last).slice(-lastChunk.length);
    // The servers' JSON contains no CR, so only the end of a chunked body matches.
    if (this.#left !== 0 && !(this.#left === Infinity && this.#kept === lastChunk)) return;
    const status = this.#status;
    this.#status = 0;
    this.#kept = '';
    this.onResponse(status);
  }
}
