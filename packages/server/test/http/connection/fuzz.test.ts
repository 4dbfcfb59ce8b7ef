// Fuzzes the bytes of connections to the real server: every response is within the contract or the connection closes
// cleanly, well-formed requests get their exact responses, and the server keeps running in bounded memory.
//
// FUZZ_REQUESTS sets the number of requests (1,500 by default, 5,000 in CI), and FUZZ_SEED repeats a run.
import fc from 'fast-check';
import { strict as assert } from 'node:assert';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { until } from '../../support/wait.js';
import { startServer, type ServerProcess } from '../../support/server-process.js';
import { checkResponse, type HttpResponse } from '../../support/contract-check.js';
import { temporaryFolder } from '../../support/engines.js';
import { parseResponses } from '../../support/http-responses.js';
import { dial, tls } from '../../support/transport.js';
import {
  cut,
  mutate,
  requestBytes,
  scripts,
  targets,
  type Script,
  type WireRequest,
} from '../../support/wire-scripts.js';
import { memoryOf } from '../../../../../scripts/lib/processes.js';
import { allErrors } from '../../../../../dist/plants/errors.js';

const requests = Number(process.env['FUZZ_REQUESTS'] ?? (process.env['CI'] === 'true' ? 5_000 : 1_500));
const seed = Number(process.env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

const bodyLimit = 200_000;
/** How much a client may send to a server that has rejected it and still read the response, in bytes. */
const lingering = 64 * 1024;
/** The maximum size of the server's heap and of its memory, in MiB. */
const heapLimit = 128;
const memoryLimit = 512;

/** Ids that cannot result from mutating the short ids of other requests. */
const firstCleanId = 4_000_000_000_000_000_000n;
const firstDirtyId = 1_000_000_000n;

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
        } else if (ending === 'reset') {
          tcp.resetAndDestroy();
        }
      };
      play(writes);
    });
  });
}

interface Expected {
  readonly status: number;
  readonly text?: string;
  readonly error?: keyof typeof allErrors;
}

/** The expected response to the well-formed request of a script. */
function predict(request: WireRequest): Expected {
  const refused = (error: keyof typeof allErrors) => ({
    status: Math.floor(allErrors[error].code / 100),
    error,
  });
  switch (request.kind) {
    case 'create': {
      const body = requestBytes({ ...request, chunks: [] }, { id: firstCleanId, token: '', requestId: '' });
      if (body.length - body.indexOf('\r\n\r\n') - 4 > bodyLimit) return refused('bodyTooLarge');
      return { status: 200, text: JSON.stringify({ name: request.name }) };
    }
    case 'delete':
      return refused('plantNotFound');
    case 'stranger':
      return refused('missingToken');
    case 'nowhere':
      return refused('pathNotFound');
    default:
      return { status: 200 };
  }
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
async function play({ port }: ServerProcess, token: string, given: Script): Promise<void> {
  const { clean, dirty, mutations, cuts, ending } = given;
  const number = connections++;
  sent += dirty.length + (clean === undefined ? 0 : 1);
  const id = firstCleanId + BigInt(number);
  const cleanBytes = clean && requestBytes(clean, { id, token, requestId: `clean-${number}` });
  const dirtyRequests = dirty.map((request, i) =>
    requestBytes(request, {
      id: firstDirtyId + BigInt(number * 4 + request.plant),
      token,
      requestId: `dirty-${number}-${i}`,
    }),
  );
  const dirtyBytes = mutations.reduce(mutate, Buffer.concat(dirtyRequests));
  const bytes = Buffer.concat([cleanBytes ?? Buffer.alloc(0), dirtyBytes]);
  const transcript = await converse(port, cut(bytes, cuts), ending);
  try {
    const { unsure } = checkTranscript(given, `clean-${number}`, transcript, bytes, dirtyBytes);
    if (unsure || ending === 'reset' || clean?.kind !== 'create') return;

    // Later valid requests work: exactly what was created can be deleted.
    const removal = requestBytes({ ...clean, kind: 'delete' }, { id, token, requestId: `witness-${number}` });
    const { received } = await converse(port, [removal], 'finish');
    const [witness] = parseResponses(received, () => false).responses;
    const wanted = predict(clean).status === 200 ? 204 : 404;
    assert.equal(witness?.status, wanted, 'what was created is not what is there');
  } catch (error) {
    const show = (text: Buffer) => JSON.stringify(text.toString('latin1').slice(0, 4_000));
    const fault = error instanceof Error ? error.message : String(error);
    throw new Error(`${fault}\nsent: ${show(bytes)}\nreceived: ${show(transcript.received)}`, {
      cause: error,
    });
  }
}

/** Checks what arrived; returns whether it is unknown what the well-formed request has done. */
function checkTranscript(
  { clean, ending }: Script,
  cleanId: string,
  { received, error }: Transcript,
  bytes: Buffer,
  dirtyBytes: Buffer,
): { unsure: boolean } {
  const mayBeHead = dirtyBytes.includes('HEAD');
  const { responses, rest } = parseResponses(received, (requestId) =>
    requestId === cleanId ? clean?.kind === 'head' : mayBeHead && undefined,
  );
  let unsure = false;
  const [first] = responses;
  if (clean !== undefined && (first !== undefined || ending !== 'reset')) {
    const where = `the response to ${clean.kind}`;
    assert.ok(first, `${where} is missing`);
    assert.equal(first.headers['x-request-id'], cleanId, `${where} is another's`);
    const { 'content-length': length, 'transfer-encoding': coding } = first.headers;
    assert.ok(length ?? coding ?? (clean.kind === 'head' || first.status === 204), `${where} has no length`);
    const [method, url] = targets[clean.kind];
    checkResponse(method, url, first);
    // A large body may have waited too long for memory.
    unsure = clean.padding > 50_000 && first.text.startsWith('{"error":50301,');
    const { status, text, error: kind } = predict(clean);
    if (!unsure) {
      assert.equal(first.status, status, `${where} is ${first.status} ${first.text}`);
      if (text !== undefined) assert.equal(first.text, text, where);
      if (kind !== undefined)
        assert.match(first.text, new RegExp(`^{"error":${allErrors[kind].code},`), where);
    }
  }
  responses.slice(clean === undefined ? 0 : 1).forEach(checkAnyResponse);
  if (ending !== 'reset') {
    assert.equal(rest.length, 0, 'the last response is cut off');
    if (bytes.length <= lingering)
      assert.equal(error?.code, undefined, 'the connection does not close cleanly');
  }
  return { unsure };
}

const pemFile = join(await temporaryFolder(t), 'tls.pem');
if (tls) await writeFile(pemFile, tls.cert);
const start = (limits: Record<string, string>) =>
  startServer({
    nodeArgs: [`--max-old-space-size=${heapLimit}`],
    env: {
      BODY_LIMIT_BYTES: String(bodyLimit),
      // Memory for some concurrent large bodies, which take six times their length.
      MEMORY_BUDGET_BYTES: String(20 * bodyLimit),
      ...limits,
      ...(tls && { TLS_CERT_FILE: pemFile, TLS_KEY_FILE: pemFile }),
    },
  });
// Over TLS, the server still waits for some clients that reset their connection when it shuts down.
let server = await start({
  REQUEST_TIMEOUT_SECONDS: '600',
  KEEP_ALIVE_SECONDS: '600',
  SHUTDOWN_SECONDS: '5',
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

const headOf = (token: string) => `Host: x\r\nAuthorization: Bearer ${token}\r\n`;
let authorized = headOf(token);
let ids = 0;
const create = (padding = 0) => {
  const body = `{"id":${++ids},"name":"a"${' '.repeat(padding)}}`;
  const head = `POST /plants HTTP/1.1\r\n${authorized}Content-Type: application/json\r\n`;
  return `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
};
/** Sends a large body until there is memory for it: the server may notice late that other clients have disconnected. */
async function findRoom(): Promise<void> {
  await until(async () => {
    const { received } = await converse(server.port, [Buffer.from(create(150_000))], 'finish');
    return parseResponses(received, () => false).responses[0]?.status === 200;
  });
}

t.test(
  'a request that does not wait for its body gets one response, even when the body breaks off',
  async (t) => {
    const broken = `DELETE /plants/0 HTTP/1.1\r\n${authorized}Transfer-Encoding: chunked\r\n\r\nzz\r\n`;
    const { received, error } = await converse(server.port, [Buffer.from(broken)], 'finish');
    t.equal(error, undefined);
    t.match(
      parseResponses(received, () => false),
      { responses: [{ status: 404 }], rest: { length: 0 } },
    );
  },
);

t.test('a CONNECT whose client resets the connection does not end the server', async () => {
  const connect = Buffer.from('CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n');
  for (let i = 0; i < 100; i++) {
    await converse(server.port, i % 2 === 0 ? [connect] : [Buffer.from(create()), connect], 'reset');
  }
  await checkServer();
});

t.test('clients that disconnect while their large bodies wait release their memory', async () => {
  for (let round = 0; round < 3; round++) {
    await Promise.all(
      Array.from({ length: 12 }, () =>
        converse(server.port, [Buffer.from(create(150_000).slice(0, -10))], 'reset'),
      ),
    );
  }
  await findRoom();
});

t.test('whatever bytes arrive, the server stays within the contract and keeps running', async (t) => {
  const batch = fc.array(scripts('finish', 'finish', 'finish', 'finish', 'finish', 'reset'), {
    minLength: 1,
    maxLength: 16,
    size: 'max',
  });
  await fc.assert(fc.asyncProperty(batch, playAll), { seed, numRuns: Math.ceil(requests / 28) });
  t.comment(
    `${sent} requests on ${connections} connections; the server has taken up to ${Math.round(most)} MiB`,
  );
});

/** Ends the server, which must have room for a large body again. */
async function endGracefully(t: Test): Promise<void> {
  await findRoom();
  t.equal(await server.end(), 0);
}

t.test('clients that never finish get a response or are disconnected in time', async (t) => {
  // Only they meet these limits. Meanwhile, the other server notices which connections have been reset.
  const other = { server, token };
  const batch = fc.array(scripts('wait'), { minLength: 64, maxLength: 64 });
  const playWith = async (limit: string) => {
    const timeouts = ['REQUEST_TIMEOUT_SECONDS', 'KEEP_ALIVE_SECONDS'];
    server = await start(Object.fromEntries(timeouts.map((name) => [name, limit])));
    token = await server.createToken('fuzz');
    authorized = headOf(token);
    await fc.assert(fc.asyncProperty(batch, playAll), { seed, numRuns: 1, endOnFailure: true });
    await endGracefully(t);
  };
  // On a slow machine, clients that do finish may meet a short limit too.
  const retryWith = (limit: string) => async (error: unknown) => {
    t.comment(`with ${limit} seconds instead, because of: ${String(error)}`);
    await server.end('SIGKILL');
    await playWith(limit);
  };
  await playWith('5').catch(retryWith('30')).catch(retryWith('180'));
  ({ server, token } = other);
  authorized = headOf(token);
});

t.test('afterwards, large bodies are accepted and the server shuts down gracefully', endGracefully);
