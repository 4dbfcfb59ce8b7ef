// Fuzzes the bytes of connections to the real server: every response is within the contract or the connection closes
// cleanly, and the server keeps running in bounded memory. What well-formed requests get is the subject of framing.test.ts.
//
// FUZZ_REQUESTS sets the number of requests (1,500 by default, 5,000 in CI), and FUZZ_SEED repeats a run.
import fc from 'fast-check';
import { strict as assert } from 'node:assert';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { until } from '../../support/wait.js';
import { startServer, type ServerProcess } from '../../support/server-process.js';
import { checkResponse, type HttpResponse } from '../../support/contract-check.js';
import { temporaryFolder } from '../../support/engines.js';
import { parseResponses } from '../../support/http-responses.js';
import { dial, tls } from '../../support/transport.js';
import { cut, mutate, requestBytes, scripts, targets, type Script } from '../../support/wire-scripts.js';
import { memoryOf } from '../../../../../scripts/lib/processes.js';

const requests = Number(process.env['FUZZ_REQUESTS'] ?? (process.env['CI'] === 'true' ? 5_000 : 1_500));
const seed = Number(process.env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

const bodyLimit = 200_000;
/** How much a client may send to a server that has rejected it and still read the response, in bytes. */
const lingering = 64 * 1024;
/** The maximum size of the server's heap and of its memory, in MiB. */
const heapLimit = 128;
const memoryLimit = 512;

let connections = 0;
let sent = 0;

interface Transcript {
  readonly received: Buffer;
  /** Why the connection broke, if it did. */
  readonly error: NodeJS.ErrnoException | undefined;
}

/** Opens a connection, performs the writes and the ending, and returns what arrived until it closed. */
function converse(port: number, writes: readonly Buffer[], ending: Script['ending']): Promise<Transcript> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let error: NodeJS.ErrnoException | undefined;
    const { socket, tcp } = dial({ port, allowHalfOpen: true, noDelay: true });
    socket
      .on('data', (chunk: Buffer) => chunks.push(chunk))
      .on('end', () => socket.end())
      .on('error', (broken) => (error = broken))
      .on('close', () => {
        resolve({ received: Buffer.concat(chunks), error });
      });
    tcp.once('connect', () => {
      const play = (rest: readonly Buffer[]) => {
        const [next, ...later] = rest;
        if (socket.destroyed || !socket.writable) return;
        if (next !== undefined) {
          socket.write(next, () => setImmediate(play, later));
        } else if (ending === 'finish') {
          socket.end();
        } else {
          tcp.resetAndDestroy();
        }
      };
      play(writes);
    });
  });
}

/** What else mutated requests may be: a HEAD of other resources. */
const mutatedTargets = [
  ['HEAD', '/openapi.json'],
  ['HEAD', '/plants/1'],
] as const;

/** Fails unless the contract has this response to some request, since it is unknown to which one it belongs. */
function checkAnyResponse(response: HttpResponse): void {
  const faults: unknown[] = [];
  for (const [method, url] of [...Object.values(targets), ...mutatedTargets]) {
    try {
      checkResponse(method, url, response);
      return;
    } catch (fault) {
      faults.push(fault);
    }
  }
  throw faults[0];
}

/** Performs a script, and checks everything that arrives. */
async function play({ port }: ServerProcess, token: string, script: Script): Promise<void> {
  const { requests, mutations, cuts, ending } = script;
  const number = connections++;
  sent += requests.length;
  const written = requests.map((request, i) => {
    const id = BigInt(number * 4 + request.plant);
    return requestBytes(request, { id, token, requestId: `request-${number}-${i}` });
  });
  const bytes = mutations.reduce(mutate, Buffer.concat(written));
  const { received, error } = await converse(port, cut(bytes, cuts), ending);
  try {
    const mayBeHead = bytes.includes('HEAD');
    const { responses, rest } = parseResponses(received, () => mayBeHead && undefined);
    responses.forEach(checkAnyResponse);
    if (ending === 'reset') return;
    assert.equal(rest.length, 0, 'the last response is cut off');
    if (bytes.length <= lingering)
      assert.equal(error?.code, undefined, 'the connection does not close cleanly');
  } catch (error) {
    const show = (text: Buffer) => JSON.stringify(text.toString('latin1').slice(0, 4_000));
    const fault = error instanceof Error ? error.message : String(error);
    throw new Error(`${fault}\nsent: ${show(bytes)}\nreceived: ${show(received)}`, { cause: error });
  }
}

const pemFile = join(await temporaryFolder(t), 'tls.pem');
if (tls) await writeFile(pemFile, tls.cert);
const server = await startServer({
  nodeArgs: [`--max-old-space-size=${heapLimit}`],
  env: {
    BODY_LIMIT_BYTES: String(bodyLimit),
    // Memory for some concurrent large bodies, which take six times their length.
    MEMORY_BUDGET_BYTES: String(20 * bodyLimit),
    REQUEST_TIMEOUT_SECONDS: '600',
    KEEP_ALIVE_SECONDS: '600',
    // Over TLS, the server still waits for some clients that reset their connection when it shuts down.
    SHUTDOWN_SECONDS: '5',
    ...(tls && { TLS_CERT_FILE: pemFile, TLS_KEY_FILE: pemFile }),
  },
});
let token = await server.createToken('fuzz');
t.teardown(() => server.end());
t.comment(`FUZZ_SEED=${seed}`);
let most = 0;

/** Fails if the server has exited, has logged an error, or uses too much memory. */
async function checkServer(): Promise<void> {
  assert.ok(server.child.exitCode === null && server.child.signalCode === null, 'the server has gone');
  // Large bodies that wait too long are logged as errors, but are no fault of the server.
  const faults = server.faults.filter((line) => !line.includes('"kind":"overloaded"'));
  assert.deepEqual(faults, [], 'the server has logged an error');
  most = Math.max(most, memoryOf(server.child.pid ?? 0));
  assert.ok(most < memoryLimit, `the server has taken ${most} MiB`);
}

let batches = 0;

async function playAll(batch: readonly Script[]): Promise<void> {
  // Deletes what mutated requests have created, because a long run would otherwise only send ever longer lists.
  if (++batches % 100 === 0) token = await server.createToken(`fuzz ${batches}`);
  await Promise.all(batch.map((one) => play(server, token, one)));
  await checkServer();
}

t.test('whatever bytes arrive, the server stays within the contract and keeps running', async (t) => {
  const batch = fc.array(scripts, { minLength: 1, maxLength: 16, size: 'max' });
  await fc.assert(fc.asyncProperty(batch, playAll), { seed, numRuns: Math.ceil(requests / 28) });
  t.comment(
    `${sent} requests on ${connections} connections; the server has taken up to ${Math.round(most)} MiB`,
  );
});

t.test('afterwards, large bodies are accepted and the server shuts down gracefully', async (t) => {
  // An id that cannot result from mutating those of the others.
  const body = `{"id":4000000000000000000,"name":"a"${' '.repeat(150_000)}}`;
  const head = `POST /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
  const create = Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n${body}`);
  // The server may notice late that other clients have disconnected.
  await until(async () => {
    const { received } = await converse(server.port, [create], 'finish');
    return parseResponses(received, () => false).responses[0]?.status === 200;
  });
  t.equal(await server.end(), 0);
});
