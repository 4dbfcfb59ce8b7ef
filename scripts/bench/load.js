// A load generator that keeps a number of connections busy, one request at a time on each, and checks every status.
// It parses only the HTTP that these servers produce: undici, autocannon and node:http cost more CPU than the fastest
// servers, so that they would be what is measured.
import { connect } from 'node:net';
import { createHistogram } from 'node:perf_hooks';

const headEnd = Buffer.from('\r\n\r\n');
const lastChunk = Buffer.from('0\r\n\r\n');

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
 * @property {number} [pause] - How long a connection rests after another status, in ms, which then is no error.
 */

/**
 * @typedef {object} LoadResult
 * @property {number} requests - The number of completed requests.
 * @property {number} seconds - The time from the first request to the last response.
 * @property {number} rate - Requests per second.
 * @property {number} p50 - The median latency, in ms.
 * @property {number} p99 - The 99th percentile of the latency, in ms.
 * @property {number} slowest - The highest latency, in ms.
 * @property {Record<number, number>} others - The numbers of responses with unexpected statuses, if these are no errors.
 * @property {number} cpu - This process's share of one core, 0 to 1; near 1, the generator is the bottleneck.
 */

/**
 * Puts a server under load.
 * @param {Load} load
 * @returns {Promise<LoadResult>}
 * @throws Error on an unexpected status, and when a connection is lost.
 */
export async function putUnderLoad({ port, connections, time, next, expect = isSuccess, pause }) {
  const latencies = createHistogram();
  let requests = 0;
  /** @type {Record<number, number>} */
  const others = {};
  /** @type {bigint} */
  let deadline;

  /** @param {import('node:net').Socket} socket @param {ResponseReader} reader @returns {Promise<void>} */
  const keepBusy = (socket, reader) =>
    new Promise((resolve, reject) => {
      let started = 0n;
      const start = () => {
        started = process.hrtime.bigint();
        const request = started < deadline ? next() : undefined;
        if (request === undefined) {
          socket.removeListener('close', broken);
          socket.destroy();
          resolve();
        } else {
          socket.write(request, 'latin1');
        }
      };
      const broken = () => {
        reject(new Error('a connection was lost'));
      };
      reader.onResponse = (status) => {
        latencies.record(process.hrtime.bigint() - started);
        requests++;
        if (expect(status)) return start();
        if (pause === undefined) return reject(new Error(`unexpected status ${status}`));
        others[status] = (others[status] ?? 0) + 1;
        setTimeout(start, pause);
      };
      socket.on('error', reject);
      socket.on('close', broken);
      start();
    });

  const open = await Promise.all(Array.from({ length: connections }, () => openConnection(port)));
  const cpu = process.cpuUsage();
  const begin = process.hrtime.bigint();
  deadline = begin + BigInt(Math.round(time * 1e6));
  try {
    await Promise.all(open.map(({ socket, reader }) => keepBusy(socket, reader)));
  } finally {
    for (const { socket } of open) socket.destroy();
  }
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
  const used = process.cpuUsage(cpu);
  return {
    requests,
    seconds,
    rate: requests / seconds,
    p50: latencies.percentile(50) / 1e6,
    p99: latencies.percentile(99) / 1e6,
    slowest: latencies.max / 1e6,
    others,
    cpu: (used.user + used.system) / 1e6 / seconds,
  };
}

/** @param {number} status */
function isSuccess(status) {
  return status === 200 || status === 201 || status === 204;
}

/**
 * @param {number} port
 * @returns {Promise<{ socket: import('node:net').Socket, reader: ResponseReader }>}
 */
function openConnection(port) {
  return new Promise((resolve, reject) => {
    const reader = new ResponseReader();
    const socket = connect({
      port,
      host: '127.0.0.1',
      noDelay: true,
      onread: {
        buffer: Buffer.allocUnsafe(64 * 1024),
        callback: (length, buffer) => {
          reader.read(/** @type {Buffer} */ (buffer).subarray(0, length));
          return true;
        },
      },
    });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve({ socket, reader });
    });
  });
}

/** Finds the end of each response on a connection, however it is split into pieces. */
class ResponseReader {
  /** @type {(status: number) => void} */
  onResponse = () => {};
  #status = 0;
  /** Remaining bytes of a body with Content-Length. */
  #left = -1;
  #chunked = false;
  /** The bytes of an incomplete header section, or the last bytes of a chunked body. */
  #kept = Buffer.alloc(0);

  /** @param {Buffer} piece */
  read(piece) {
    if (this.#status === 0) {
      const bytes = this.#kept.length > 0 ? Buffer.concat([this.#kept, piece]) : piece;
      const end = bytes.indexOf(headEnd);
      if (end === -1) {
        this.#kept = Buffer.from(bytes);
        return;
      }
      this.#kept = Buffer.alloc(0);
      const head = bytes.toString('latin1', 0, end).toLowerCase();
      this.#status = Number(head.slice(9, 12));
      this.#chunked = head.includes('\r\ntransfer-encoding: chunked');
      const length = head.indexOf('\r\ncontent-length: ');
      this.#left = length === -1 ? 0 : parseInt(head.slice(length + 18), 10);
      piece = bytes.subarray(end + headEnd.length);
    }
    if (this.#chunked) {
      // The servers' JSON contains no CR, so only the end of the body matches.
      const tail = Buffer.concat([this.#kept, piece.subarray(-lastChunk.length)]).subarray(-lastChunk.length);
      if (tail.equals(lastChunk)) this.#end();
      else this.#kept = tail;
    } else {
      this.#left -= piece.length;
      if (this.#left === 0) this.#end();
    }
  }

  #end() {
    const status = this.#status;
    this.#status = 0;
    this.#kept = Buffer.alloc(0);
    this.onResponse(status);
  }
}
