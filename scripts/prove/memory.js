// Checks that costly bodies, and clients that stall while they send or read, take no more memory than docs/containers.md
// says. As a control, a server without limits must be found to exceed it.
//
//   npm run prove:memory
//
// The servers have a heap of 64 MiB and the admin listener on. How fast the machine is does not matter: the kernel records
// the peak, and an attack lasts until the server has finished all requests. Takes one to three minutes. Linux only: reads
// resident memory from /proc.
import { connect } from 'node:net';
import getPort from 'get-port';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { memoryOf, until } from '../lib/processes.js';
import { send } from '../lib/request.js';

/** The limit of resident memory, in MiB, and the memory that a server without limits must exceed. */
const [bound, excess] = [256, 320];
/** The number of clients that stall in each of three ways. Without limits, most of them hold 1 MiB each. */
const clients = 200;
/** The size of a long list, in bytes. The kernel takes up to 4 MiB of it for each connection. */
const listBytes = 8 * 1024 * 1024;
/** The maximum time of an attack, in s: far beyond what a slow machine needs. */
const patience = 1_200;
const [unlimited, never] = [String(2 ** 33), '86400'];

const million = 1_040_000;
const costly = [
  `{"id":1.0,"name":${'['.repeat(million / 2)}${']'.repeat(million / 2)}}`,
  `[${'{},'.repeat(million / 3)}{}]`,
  `{${Array.from({ length: 95_000 }, (_, i) => `"k${i}":0`).join(',')}}`,
];

/** Renders a plant whose name is not Latin-1. @param {number} id @param {number} length - Of the name. */
function plant(id, length) {
  return `{"id":${id},"name":"${'я'.padEnd(length, 'x')}"}`;
}

/**
 * Attacks a server until it has finished all requests, or its memory exceeds a limit.
 * @param {number} limit - In MiB.
 * @param {Record<string, string>} [env] - Its environment.
 */
async function attack(limit, env) {
  const opsPort = await getPort();
  const server = await startServer({
    // A slow machine must not cause 503s here.
    env: { OPS_PORT: String(opsPort), MAX_EVENT_LOOP_DELAY_MS: '0', ...env },
    nodeArgs: ['--max-old-space-size=64'],
  });
  const { child, origin, port } = server;
  /** Its peak memory in MiB; infinite if it has ended. */
  const peak = () => ((child.exitCode ?? child.signalCode) ? Infinity : memoryOf(Number(child.pid), 'VmHWM'));
  let sent = 0;

  /** @param {Omit<import('../lib/request.js').Message, 'path'>} message */
  function request(message) {
    sent++;
    return send(origin, { path: '/plants', ...message }, { timeout: patience * 1_000 });
  }

  /** @param {string} token @param {string} body @returns {Promise<number>} The status. */
  async function create(token, body) {
    return (await request({ method: 'POST', token, body })).status;
  }

  /**
   * Sends a request from many clients that read nothing.
   * @param {string} head - The request line, and headers.
   * @param {string} [body]
   */
  function stall(head, body = '') {
    return Array.from({ length: clients }, () => {
      sent++;
      const socket = connect(port, '127.0.0.1').pause();
      socket.on('error', () => undefined).write(`${head}\r\nHost: x\r\nConnection: close\r\n\r\n${body}`);
      return socket;
    });
  }

  /** Whether the server has finished all requests. */
  async function isFinished() {
    const { text } = await send(`http://127.0.0.1:${opsPort}`, { path: '/metrics' });
    const counts = text.matchAll(/_http_request_duration_seconds_count\{.*\} (\d+)/g);
    return [...counts].reduce((sum, [, count]) => sum + Number(count), 0) === sent;
  }

  const other = await server.createToken('other');
  const sender = await server.createToken('sender');
  const readers = [];
  for (const length of [100_000, million]) {
    const token = await server.createToken(`reader of plants of ${length}`);
    for (let id = 0; id < listBytes / length; id++) await create(token, plant(id, length));
    readers.push(token);
  }

  const refused = await Promise.all(
    costly.flatMap((body) => Array.from({ length: 8 }, () => create(sender, body))),
  );
  const body = plant(1, million);
  const same = await Promise.all(Array.from({ length: 64 }, () => create(sender, body)));

  const unfinished = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body) + 1}`;
  const stalled = [
    ...readers.flatMap((token) => stall(`GET /plants HTTP/1.1\r\nAuthorization: Bearer ${token}`)),
    ...stall(`POST /plants HTTP/1.1\r\nAuthorization: Bearer ${sender}\r\n${unfinished}`, body),
  ];
  let id = 0;
  let served = true;
  const ends = await until(async () => {
    const { status, text } = await request({ token: other });
    served &&= status === 200 && text.endsWith(']') && (await create(other, plant(id++, 1))) === 200;
    return peak() > limit || isFinished();
  }, patience);
  const most = peak();
  for (const socket of stalled) socket.destroy();
  return {
    peak: most,
    verdicts: {
      '24 concurrent costly bodies are refused': refused.every((status) => status === 400),
      '64 concurrent long bodies beyond Latin-1 are stored once, and otherwise refused as duplicates':
        same.filter((status) => status === 200).length === 1 &&
        same.filter((status) => status === 400).length === same.length - 1,
      [`${stalled.length} clients stall, and another subject is served`]: served && ends,
      [`the peak is ${Math.round(most)} MiB, at most ${limit}`]: most <= limit,
      'the server shuts down gracefully': (await server.end()) === 0,
    },
  };
}

/** @type {{ verdicts: Record<string, boolean> }} */
const { verdicts } = await attack(bound);
const { peak } = await attack(excess, { MEMORY_BUDGET_BYTES: unlimited, REQUEST_TIMEOUT_SECONDS: never });
const took = peak === Infinity ? 'the heap overflows' : `the peak is ${Math.round(peak)} MiB`;
verdicts[`control: without limits, ${took}`] = peak > excess;
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
process.exitCode = Object.values(verdicts).every(Boolean) ? 0 : 1;
