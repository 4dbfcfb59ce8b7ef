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
  readonly request: WireRequest;
  readonly requestId: string;
  readonly status: number;
  readonly text: string | undefined;
  readonly error: keyof typeof allErrors | undefined;
}

/** The expected responses to the well-formed requests of a script, and the plants after them. */
function predict(clean: readonly WireRequest[], names: (index: number) => string) {
  const plants = new Map<number, string>();
  const expected = clean.map((request, index): Expected => {
    const { kind, plant, name } = request;
    const known = { request, requestId: names(index) };
    const ok = (status: number, text?: string) => ({ ...known, status, text, error: undefined });
    const refused = (error: keyof typeof allErrors) => ({
      ...known,
      status: Math.floor(allErrors[error].code / 100),
      text: undefined,
      error,
    });
    switch (kind) {
      case 'create': {
        const body = requestBytes({ ...request, chunks: [] }, { id: firstCleanId, token: '', requestId: '' });
        if (body.length - body.indexOf('\r\n\r\n') - 4 > bodyLimit) return refused('bodyTooLarge');
        const there = plants.get(plant);
        if (there !== undefined) return refused(there === name ? 'plantExists' : 'idTaken');
        plants.set(plant, name);
        return ok(200, JSON.stringify({ name }));
      }
      case 'delete':
        return plants.delete(plant) ? ok(204, '') : refused('plantNotFound');
      case 'head':
        return ok(200, '');
      case 'stranger':
        return refused('missingToken');
      case 'nowhere':
        return refused('pathNotFound');
      case 'list':
      case 'contract':
        return ok(200);
    }
  });
  return { expected, plants };
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
  sent += clean.length + dirty.length;
  const render = (part: string, first: bigint) => (request: WireRequest, index: number) =>
    requestBytes(request, {
      id: first + BigInt(number * 4 + request.plant),
      token,
      requestId: `${part}-${number}-${index}`,
    });
  const cleanBytes = Buffer.concat(clean.map(render('clean', firstCleanId)));
  const dirtyBytes = mutations.reduce(mutate, Buffer.concat(dirty.map(render('dirty', firstDirtyId))));
  const bytes = Buffer.concat([cleanBytes, dirtyBytes]);
  const transcript = await converse(port, cut(bytes, cuts), ending);
  try {
    const { expected, plants } = predict(clean, (index) => `clean-${number}-${index}`);
    const { unsure } = checkTranscript({ transcript, expected, dirtyBytes, sent: bytes.length, ending });
    if (unsure || ending === 'reset') return;

    // Later valid requests work: exactly the created plants can be deleted.
    const witness = [0, 1, 2, 3].map((plant) => ({ plant, there: plants.has(plant) }));
    const removals = witness.map(({ plant }) => remove(plant)).map(render('witness', firstCleanId));
    const after = await Promise.all(removals.map((bytes) => converse(port, [bytes], 'finish')));
    const statuses = after.flatMap(({ received }) =>
      parseResponses(received, () => false).responses.map(({ status }) => status),
    );
    const wanted = witness.map(({ there }) => (there ? 204 : 404));
    assert.deepEqual(statuses, wanted, 'what was created is not what is there');
  } catch (error) {
    const show = (text: Buffer) => JSON.stringify(text.toString('latin1').slice(0, 4_000));
    const fault = error instanceof Error ? error.message : String(error);
    throw new Error(`${fault}\nsent: ${show(bytes)}\nreceived: ${show(transcript.received)}`, {
      cause: error,
    });
  }
}

interface Played {
  transcript: Transcript;
  expected: readonly Expected[];
  dirtyBytes: Buffer;
  /** The number of bytes that were sent. */
  sent: number;
  ending: Script['ending'];
}

/** Checks what arrived; returns whether it is unknown what the well-formed request has done. */
function checkTranscript({ transcript: { received, error }, expected, dirtyBytes, sent, ending }: Played): {
  unsure: boolean;
} {
  const mayBeHead = dirtyBytes.includes('HEAD');
  const { responses, rest } = parseResponses(received, (requestId) => {
    const known = expected.find((one) => one.requestId === requestId);
    if (known !== undefined) return known.request.kind === 'head';
    return mayBeHead ? undefined : false;
  });
  let unsure = false as boolean;
  expected.forEach(({ request, requestId, status, text, error: kind }, index) => {
    const response = responses[index];
    if (response === undefined && ending === 'reset') return;
    const where = `the response to ${request.kind} ${index}`;
    assert.ok(response, `${where} is missing`);
    assert.equal(response.headers['x-request-id'], requestId, `${where} is another's`);
    const { 'content-length': length, 'transfer-encoding': coding } = response.headers;
    assert.ok(
      length ?? coding ?? (request.kind === 'head' || response.status === 204),
      `${where} has no length`,
    );
    const [method, url] = targets[request.kind];
    checkResponse(method, url, response);
    // A large body may have waited too long for memory, which changes the responses after it.
    if (request.padding > 50_000 && response.text.startsWith('{"error":50301,')) unsure = true;
    if (unsure) return;
    assert.equal(response.status, status, `${where} is ${response.status} ${response.text}`);
    if (text !== undefined) assert.equal(response.text, text, where);
    if (kind !== undefined)
      assert.match(response.text, new RegExp(`^{"error":${allErrors[kind].code},`), where);
  });
  responses.slice(expected.length).forEach(checkAnyResponse);
  if (ending !== 'reset') {
    assert.equal(rest.length, 0, 'the last response is cut off');
    if (sent <= lingering) assert.equal(error?.code, undefined, 'the connection does not close cleanly');
  }
  return { unsure };
}

const remove = (plant: number): WireRequest => ({
  kind: 'delete',
  plant,
  name: '',
  padding: 0,
  chunks: [],
  expect: false,
  extra: [],
  close: false,
});

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
/** Sends bytes in one write, and returns the statuses of the responses. */
async function statuses(bytes: string, ending: Script['ending'] = 'finish'): Promise<number[]> {
  const { received, error } = await converse(server.port, [Buffer.from(bytes)], ending);
  assert.equal(error?.code, undefined);
  const { responses, rest } = parseResponses(received, () => false);
  assert.equal(rest.length, 0);
  return responses.map(({ status }) => status);
}

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
    t.strictSame(await statuses(broken), [404]);
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

t.test('a pipeline of any length gets one response', async (t) => {
  t.strictSame(await statuses('GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1_000)), [404]);
  await checkServer();
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
