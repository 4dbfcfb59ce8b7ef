// The TypeScript client is exact, retries only what is safe to repeat, and reports every failure as what it is: against the
// real service, through real sockets, some of which are cut.
import { execFile } from 'node:child_process';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import t, { type Test } from 'tap';
import type * as ClientModule from '../dist/index.js';
import {
  ApiError,
  ConnectionError,
  createClient,
  type Attempt,
  type Clock,
  type ClientOptions,
  type ListOptions,
  type NewPlant,
  type PlantStoreClient,
} from '../dist/index.js';
import { noBrowser, startBrowser } from '../../server/test/support/browser.js';
import { startCuttingProxy, type Fate } from '../../server/test/support/cutting-proxy.js';
import { injectFaults, startListening } from '../../server/test/support/service.js';
import { skipFor } from '../../server/test/support/skip.js';
import { repeatUntil } from '../../server/test/support/wait.js';
import { StorageError } from '../../server/dist/storage/core/interface.js';
import { allErrors } from '../../../dist/plants/errors.js';

const maxId = 9223372036854775807n;
const minId = -9223372036854775808n;
const beyondDouble = 9007199254740993n;

/** A clock that does not wait, but records how long it should have waited. */
function fastClock(): Clock & { waits: number[] } {
  const waits: number[] = [];
  return {
    waits,
    now: () => Date.UTC(2030, 0, 1),
    sleep: (time, signal) => {
      signal?.throwIfAborted();
      waits.push(time);
      return Promise.resolve();
    },
  };
}

/** How the store fails: the reason, and whether the call has taken effect. */
interface Failure {
  reason: StorageError['failure'];
  acts: boolean;
}

/** The next failures of the store. */
const failures: Failure[] = [];

/** A store that fails as `failures` describes. */
const failing = injectFaults(({ plants }) => {
  const failed = async <Result>(act: () => Promise<Result>): Promise<Result> => {
    const next = failures.shift();
    if (next === undefined) return act();
    if (next.acts) await act();
    throw new StorageError(next.reason, 'planted');
  };
  return {
    plants: {
      create: (...all) => failed(() => plants.create(...all)),
      delete: (...all) => failed(() => plants.delete(...all)),
      list: (...all) => failed(() => plants.list(...all)),
    },
  };
});

/** The service of these tests, on a loopback port. */
const service = await startListening(t, { wrap: failing });
const { port } = service;

interface Setting {
  subject: string;
  client: PlantStoreClient;
  clock: ReturnType<typeof fastClock>;
  /** What happens to the next requests. */
  fates: Fate[];
  /** All plants, read without the client and the proxy. */
  stored(): Promise<unknown>;
  /** A client with other options. */
  connect(options?: Partial<ClientOptions>): PlantStoreClient;
}

let settings = 0;

/** A client of the service with a subject of its own, through a proxy that breaks connections. */
async function startSetting(t: Test): Promise<Setting> {
  const subject = `client ${++settings}`;
  const token = await service.issue(subject);
  const { url, fates } = await startCuttingProxy(t, port);
  const clock = fastClock();
  const connect: Setting['connect'] = (options) => createClient({ baseUrl: url, token, clock, ...options });
  return {
    subject,
    client: connect(),
    clock,
    fates,
    stored: async () => (await service.call('GET', '/plants', { token })).json,
    connect,
  };
}

/** Another server at the address of the service. It reads requests first; its responses are JSON unless it says otherwise. */
async function startStranger(
  t: Test,
  answer: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): Promise<string> {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    void text(request).then((body) => {
      answer(request, response, body);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Writes a text again and again, as fast as the client reads, until it leaves; then, or after so often, ends. */
function pour(response: ServerResponse, chunk: string, times = Infinity, end = ''): void {
  let left = times;
  const more = () => {
    while (!response.destroyed && left-- > 0) if (!response.write(chunk)) return;
    response.end(end);
  };
  response.on('drain', more);
  more();
}

/** The plants of a stream until it ends or fails, and the error if it fails. */
async function drain(stream: AsyncIterable<unknown>): Promise<{ seen: unknown[]; error?: unknown }> {
  const seen: unknown[] = [];
  try {
    for await (const plant of stream) seen.push(plant);
  } catch (error) {
    return { seen, error };
  }
  return { seen };
}

/** The error of a call. */
async function failure(call: Promise<unknown>): Promise<ApiError | ConnectionError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof ApiError || error instanceof ConnectionError) return error;
    throw error;
  }
  throw new Error('the call did not fail');
}

/** A failed call without its message, for comparison. */
function summary(error: ApiError | ConnectionError) {
  const { attempts, mayHaveTakenEffect } = error;
  const call = { attempts, mayHaveTakenEffect };
  return error instanceof ApiError
    ? { ...call, kind: error.kind, code: error.code, status: error.status }
    : call;
}

t.test('createPlant, listPlants and deletePlant are exact over the whole range of 64 bits', async (t) => {
  const { client, stored, clock } = await startSetting(t);
  const ids = [
    beyondDouble,
    maxId,
    0,
    minId,
    beyondDouble - 1n,
    Number.MAX_SAFE_INTEGER,
    beyondDouble + 1n,
    -1n,
  ];
  for (const id of ids) t.strictSame(await client.createPlant({ id, name: `${id}` }), { name: `${id}` });
  t.strictSame(await client.createPlant({ id: 5, name: '', tag: 'a "tag"\u{1F33F}\u2028' }), {
    name: '',
    tag: 'a "tag"\u{1F33F}\u2028',
  });
  t.strictSame(await client.createPlant({ id: 6, name: 'no tag', tag: undefined }), {
    name: 'no tag',
  });
  const all = [
    { name: `${minId}` },
    { name: '-1' },
    { name: '0' },
    { name: '', tag: 'a "tag"\u{1F33F}\u2028' },
    { name: 'no tag' },
    { name: '9007199254740991' },
    { name: '9007199254740992' },
    { name: '9007199254740993' },
    { name: '9007199254740994' },
    { name: `${maxId}` },
  ];
  t.strictSame(await client.listPlants(), all);
  t.strictSame(await client.listPlants({ limit: 3 }), all.slice(0, 3));
  t.strictSame(await stored(), all);
  for (const id of [beyondDouble, maxId, minId, 5, 6]) await client.deletePlant(id);
  t.strictSame(await stored(), [
    { name: '-1' },
    { name: '0' },
    { name: '9007199254740991' },
    { name: '9007199254740992' },
    { name: '9007199254740994' },
  ]);
  t.strictSame(clock.waits, []);
});

t.test('a field of any type is sent and returned exactly, even after a lost response', async (t) => {
  const bodies: string[] = [];
  const url = await startStranger(t, (request, response, body) => {
    bodies.push(body);
    if (bodies.length === 1) request.socket.destroy();
    else response.writeHead(400).end('{"error":40011,"message":"You already have exactly this plant."}');
  });
  const fields = {
    name: '\u0001-1\u0001',
    height: 1.5e-7,
    edible: false,
    parent: null,
    sizes: [1, [2]],
    bed: { rows: [{ 'in "sun"': true }], none: {} },
  };
  const absent = { tag: undefined as never, notes: undefined };
  const client = createClient({ baseUrl: url, token: 't', clock: fastClock() });
  t.strictSame(await client.createPlant({ id: maxId, ...fields, ...absent }), fields);
  const json = JSON.stringify({ id: 0, ...fields }).replace('0', `${maxId}`);
  t.strictSame(bodies, [json, json]);

  const counts = { name: 'a', seeds: { counted: [minId, beyondDouble], sold: 1n } };
  await failure(client.createPlant({ id: 0, ...counts }));
  t.equal(
    bodies[2],
    `{"id":0,"name":"a","seeds":{"counted":[${minId},${beyondDouble}],"sold":1}}`,
    'integers of 64 bits too',
  );
});

t.test('ids that may be rounded are rejected before anything is sent', async (t) => {
  const sent: Request[] = [];
  const client = createClient({
    baseUrl: 'http://127.0.0.1:9',
    token: 'x',
    fetch: (request) => {
      sent.push(request);
      return Promise.reject(new TypeError('refused'));
    },
  });
  for (const id of [2 ** 53, -(2 ** 53), 1.5, NaN, Infinity, maxId + 1n, minId - 1n]) {
    await t.rejects(client.createPlant({ id, name: 'a' }), RangeError, `${id}`);
    await t.rejects(client.deletePlant(id), RangeError, `${id}`);
  }
  for (const id of ['1', null, undefined, true]) {
    await t.rejects(client.createPlant({ id: id as never, name: 'a' }), TypeError, String(id));
    await t.rejects(client.deletePlant(id as never), TypeError, String(id));
  }
  t.strictSame(sent, []);
});

t.test('every error of the service is an ApiError with its status, code, name and request id', async (t) => {
  const { subject, client, connect, stored, clock } = await startSetting(t);
  const [readOnly, writeOnly] = await Promise.all([
    service.issue(subject, { scopes: ['plants:read'] }),
    service.issue(subject, { scopes: ['plants:write'] }),
  ]);
  await client.createPlant({ id: 1, name: 'a' });
  const cases: [keyof typeof allErrors, () => Promise<unknown>][] = [
    ['invalidBody', () => client.createPlant({ id: 2, name: 'a', color: 'green' } as NewPlant)],
    ['invalidBody', () => client.createPlant({ id: 2, name: '\ud800' })],
    ['bodyTooLarge', () => client.createPlant({ id: 2, name: 'x'.repeat(2_000_000) })],
    ['invalidQuery', () => client.listPlants({ limit: 0 })],
    ['invalidQuery', () => client.listPlants({ limit: 1, color: 'green' } as ListOptions)],
    ['idTaken', () => client.createPlant({ id: 1, name: 'b' })],
    ['plantExists', () => client.createPlant({ id: 1, name: 'a' })],
    ['plantNotFound', () => client.deletePlant(2)],
    ['invalidToken', () => connect({ token: 'nonsense' }).listPlants()],
    ['insufficientScope', () => connect({ token: writeOnly }).listPlants()],
    ['insufficientScope', () => connect({ token: readOnly }).deletePlant(1)],
  ];
  for (const [kind, call] of cases) {
    const error = await failure(call());
    const { code } = allErrors[kind];
    const status = Math.floor(code / 100);
    t.strictSame(summary(error), { attempts: 1, mayHaveTakenEffect: false, kind, code, status }, kind);
    t.ok(error.message.startsWith(allErrors[kind].message.slice(0, -1)), error.message);
    t.match(error.requestId, /^[\da-f]{16}-1$/);
  }
  const taken = await failure(client.createPlant({ id: 1, name: 'b' }));
  if (taken instanceof ApiError && taken.is('idTaken')) {
    // The compiler checks these lines.
    const code: 40010 = taken.code;
    const status: 400 = taken.status;
    t.strictSame([code, status], [40010, 400]);
  } else t.fail('it is not idTaken');
  t.strictSame(await stored(), [{ name: 'a' }]);
  t.strictSame(clock.waits, [], 'none of these is worth a retry');
});

t.test('a create whose response is lost succeeds, and creates one plant', async (t) => {
  const { client, stored, clock, fates } = await startSetting(t);
  for (const [id, lost] of [
    ['lose response'],
    ['cut response'],
    ['lose request'],
    ['lose response', 'lose response'],
  ].entries()) {
    fates.push(...(lost as Fate[]));
    t.strictSame(await client.createPlant({ id, name: lost.join(), tag: 'x' }), {
      name: lost.join(),
      tag: 'x',
    });
    t.strictSame(fates, []);
  }
  t.match(await stored(), { length: 4 });
  t.equal(clock.waits.length, 5);

  const own = await failure(client.createPlant({ id: 0, name: 'lose response', tag: 'x' }));
  t.match(summary(own), { attempts: 1, kind: 'plantExists' }, 'without an attempt of its own it is an error');
  fates.push('lose request');
  const taken = await failure(client.createPlant({ id: 0, name: 'another' }));
  t.match(summary(taken), { attempts: 2, kind: 'idTaken' }, "another's plant is never taken for the own one");
  t.match(await stored(), { length: 4 });
});

t.test('a delete whose response is lost succeeds', async (t) => {
  const { client, stored, fates } = await startSetting(t);
  await client.createPlant({ id: 1, name: 'a' });
  await client.createPlant({ id: 2, name: 'b' });
  for (const [id, fate] of [
    [1, 'lose response'],
    [2, 'lose request'],
  ] as const) {
    fates.push(fate);
    await client.deletePlant(id);
    t.strictSame(fates, []);
    t.match(summary(await failure(client.deletePlant(id))), { attempts: 1, kind: 'plantNotFound' });
  }
  t.strictSame(await stored(), []);
});

t.test('a truncated list is requested again, and never returned in part', async (t) => {
  const { subject, client, fates } = await startSetting(t);
  const count = 1_500;
  await Promise.all(
    Array.from({ length: count }, (_, i) =>
      service.storage.plants.create(subject, BigInt(i), { name: `${i}` }),
    ),
  );
  fates.push('cut response', 'lose response', 'lose request');
  t.strictSame(
    await client.listPlants(),
    Array.from({ length: count }, (_, i) => ({ name: `${i}` })),
  );
  fates.push('cut response', 'cut response', 'cut response', 'cut response');
  const error = await failure(client.listPlants());
  t.type(error, ConnectionError);
  t.strictSame(summary(error), { attempts: 4, mayHaveTakenEffect: false });
});

t.test('retries wait longer each time, end, and report that the outcome is unknown', async (t) => {
  const { client, connect, stored, clock, fates } = await startSetting(t);
  fates.push('lose request', 'lose request', 'lose request', 'lose response');
  const error = await failure(client.createPlant({ id: 1, name: 'a' }));
  t.type(error, ConnectionError);
  t.ok(error.cause instanceof Error);
  t.strictSame(summary(error), { attempts: 4, mayHaveTakenEffect: true });
  t.strictSame(await stored(), [{ name: 'a' }], 'it had');
  for (const [i, wait] of clock.waits.entries()) {
    t.ok(wait >= 50 * 2 ** i && wait <= 100 * 2 ** i, `wait ${i} is ${wait} ms`);
  }
  t.equal(clock.waits.length, 3);

  fates.push('lose response');
  t.strictSame(summary(await failure(connect({ retries: 0 }).deletePlant(1))), {
    attempts: 1,
    mayHaveTakenEffect: true,
  });
  t.strictSame(await stored(), []);
});

t.test('an attempt without a complete response in time has failed', async (t) => {
  const { connect, fates } = await startSetting(t);
  fates.push('hold response');
  const error = await failure(connect({ timeout: 50, retries: 0 }).createPlant({ id: 1, name: 'a' }));
  t.match(error.message, /no complete response within 50 ms/);
  t.strictSame(summary(error), { attempts: 1, mayHaveTakenEffect: true });

  const halves: [status: number, half: string][] = [
    [200, '[{"name":"a"},'],
    [400, '{"error":40006,'],
  ];
  for (const [status, half] of halves) {
    const url = await startStranger(t, (_request, response) => {
      response.writeHead(status).write(half);
    });
    const client = createClient({ baseUrl: url, token: 't', timeout: 50, retries: 1, clock: fastClock() });
    const hung = await failure(client.listPlants());
    t.type(hung, ConnectionError);
    t.match(hung.message, /no complete response within 50 ms/);
    t.strictSame(summary(hung), { attempts: 2, mayHaveTakenEffect: false });
  }
});

t.test('a timeout of 0 or Infinity means none, and implausible limits are rejected', async (t) => {
  const { connect } = await startSetting(t);
  for (const timeout of [0, Infinity, 2 ** 31, Number.MAX_VALUE]) {
    t.strictSame(await connect({ timeout, retries: 0 }).listPlants(), [], `${timeout}`);
  }
  for (const name of ['retries', 'maxWait', 'timeout', 'maxPlantBytes']) {
    for (const limit of [-1, NaN])
      t.throws(() => connect({ [name]: limit }), RangeError, `${name}: ${limit}`);
  }
});

t.test('timeout and retries can be given for one call', async (t) => {
  const { connect, stored, fates } = await startSetting(t);
  const client = connect({ retries: 0 });
  fates.push('lose request');
  t.strictSame(await client.listPlants({ retries: 1, limit: 1 }), []);
  fates.push('lose request');
  t.equal((await failure(client.listPlants({ retries: undefined }))).attempts, 1, 'undefined is no option');
  const callsWith = (options: ListOptions): (() => Promise<unknown>)[] => [
    () => client.createPlant({ id: 1, name: 'a' }, options),
    () => client.listPlants(options),
    () => client.streamPlants(options).next(),
    () => client.deletePlant(1, options),
  ];
  for (const call of callsWith({ timeout: 50, retries: 1 })) {
    fates.push('hold response', 'hold response');
    const error = await failure(call());
    t.match(error.message, /no complete response within 50 ms/);
    t.equal(error.attempts, 2);
  }
  // A request that times out on a slow machine may not have reached the proxy, which then keeps its fate.
  fates.length = 0;
  await client.deletePlant(1).catch((error: unknown) => {
    t.match(error, { kind: 'plantNotFound' });
  });
  t.strictSame(await stored(), []);

  fates.push('lose request');
  for (const name of ['timeout', 'retries']) {
    for (const limit of [-1, NaN]) {
      for (const call of callsWith({ [name]: limit }))
        await t.rejects(call(), new RangeError(`${name} must be 0 or a positive number: ${limit}`));
    }
  }
  t.strictSame(fates, ['lose request'], 'before anything is sent');
});

t.test('a refused connection has certainly no effect, and its cause can be read', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  // A name with several addresses fails with an error for each of them.
  for (const host of ['127.0.0.1', 'localhost']) {
    const client = createClient({ baseUrl: `http://${host}:${port}`, token: 't', clock: fastClock() });
    for (const call of [() => client.createPlant({ id: 1, name: 'a' }), () => client.deletePlant(1)]) {
      const error = await failure(call());
      t.type(error, ConnectionError);
      t.strictSame(summary(error), { attempts: 4, mayHaveTakenEffect: false }, host);
      const expected = new RegExp(`connect ECONNREFUSED .*:${port}`);
      t.match(error.message, expected, host);
      t.match(String(error.cause), expected, 'not only that fetch failed');
      t.match(error.cause, { code: 'ECONNREFUSED' });
    }
  }
});

t.test('a name that does not resolve has certainly no effect', async (t) => {
  const client = createClient({ baseUrl: 'http://plants.invalid', token: 't', retries: 0 });
  const error = await failure(client.createPlant({ id: 1, name: 'a' }));
  t.strictSame(summary(error), { attempts: 1, mayHaveTakenEffect: false });
  t.match(error.cause, { syscall: 'getaddrinfo' });
});

t.test('a connection that is refused after a lost one leaves the effect open', async (t) => {
  const server = createServer((request) => {
    server.close();
    request.socket.destroy();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = createClient({ baseUrl: `http://127.0.0.1:${port}`, token: 't', clock: fastClock() });
  const ended = await failure(client.deletePlant(1));
  t.match(ended.cause, { code: 'ECONNREFUSED' });
  t.strictSame(summary(ended), { attempts: 4, mayHaveTakenEffect: true });
  // What a fetch of the caller's has sent before it fails, nobody can say.
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { syscall: 'connect' });
  const own = createClient({
    baseUrl: 'http://127.0.0.1',
    token: 't',
    retries: 0,
    fetch: () => Promise.reject(new TypeError('fetch failed', { cause: refused })),
  });
  const error = await failure(own.deletePlant(1));
  t.strictSame(summary(error), { attempts: 1, mayHaveTakenEffect: true });
});

t.test('a call can name its requests', async (t) => {
  const { client, connect, fates } = await startSetting(t);
  const ids: string[] = [];
  const observed = connect({ onAttempt: ({ requestId }) => ids.push(requestId) });
  fates.push('lose request');
  await observed.createPlant({ id: 1, name: 'a' }, { requestId: 'import.1' });
  await observed.listPlants({ requestId: 'x'.repeat(54) });
  t.strictSame(ids, ['import.1-1', 'import.1-2', `${'x'.repeat(54)}-1`]);
  for (const requestId of ['', 'a b', 'x'.repeat(55)])
    await t.rejects(client.listPlants({ requestId }), { name: 'RangeError', message: /requestId/ });
});

t.test('a missing token, or one with its scheme, is an error before anything is sent', async (t) => {
  const { connect, fates } = await startSetting(t);
  fates.push('lose request');
  for (const token of [undefined, null, '', 1, 'Bearer pst_a']) {
    t.throws(
      () => connect({ token: token as never }),
      { name: 'TypeError', message: /token/ },
      String(token),
    );
    const client = connect({ token: () => token as never });
    await t.rejects(client.listPlants(), { name: 'TypeError', message: /token/ }, `a function: ${token}`);
  }
  t.strictSame(fates, ['lose request'], 'no request was there to be lost');
});

t.test('503 is retried after Retry-After, and its statement about the effect is trusted', async (t) => {
  const { client, stored, clock } = await startSetting(t);
  const unknown = { reason: 'unknown-outcome', acts: true } as const;
  const unavailable = { reason: 'unavailable', acts: false } as const;
  const overloaded = { reason: 'overloaded', acts: false } as const;

  failures.push(overloaded, unknown);
  t.strictSame(await client.createPlant({ id: 1, name: 'a' }), { name: 'a' });
  t.equal(clock.waits.length, 2);
  for (const [i, wait] of clock.waits.entries()) t.ok(wait >= 1_000 + 50 * 2 ** i, `wait ${i} is ${wait} ms`);
  t.strictSame(await stored(), [{ name: 'a' }]);

  failures.push(unavailable);
  const there = await failure(client.createPlant({ id: 1, name: 'a' }));
  t.match(
    summary(there),
    { attempts: 2, mayHaveTakenEffect: false, kind: 'plantExists' },
    'it was there before',
  );

  failures.push(unavailable);
  t.strictSame(await client.listPlants(), [{ name: 'a' }]);

  failures.push(unknown, unavailable);
  await client.deletePlant(1);
  t.strictSame(await stored(), []);

  failures.push(overloaded);
  const gone = await failure(client.deletePlant(1));
  t.match(
    summary(gone),
    { attempts: 2, mayHaveTakenEffect: false, kind: 'plantNotFound' },
    'nothing was deleted',
  );

  failures.push(unknown, unavailable, unavailable, unavailable);
  const open = await failure(client.createPlant({ id: 2, name: 'b' }));
  t.match(
    summary(open),
    { attempts: 4, mayHaveTakenEffect: true, kind: 'unavailable' },
    'the first one may have had',
  );
  t.strictSame(await stored(), [{ name: 'b' }]);
});

t.test('responses that are not the service’s are errors, never successes', async (t) => {
  type Answered = [status: number, headers: Record<string, string>, body: string];
  let requests = 0;
  let next: Answered;
  const url = await startStranger(t, (_request, response) => {
    requests++;
    response.writeHead(next[0], next[1]).end(next[2]);
  });
  const clock = fastClock();
  const client = createClient({ baseUrl: `${url}/`, token: 't', clock, retries: 1 });
  const page = '<html>Log in</html>';
  const soon = new Date(clock.now() + 7_000).toUTCString();
  // What is returned, whether it may have taken effect, how often it is asked for, and after what time, in ms.
  const cases: [Answered, mayHaveTakenEffect: boolean, attempts: number, wait?: number][] = [
    [[200, {}, page], true, 1],
    [[200, { 'content-length': '0' }, ''], true, 1],
    [[304, {}, ''], false, 1],
    [[302, { location: '/plants' }, ''], false, 1],
    [[422, {}, '{"error":42200,"message":"New."}'], false, 1],
    [[501, {}, page], true, 1],
    [[500, {}, '{"error":50000,"message":"It failed."}'], true, 2, 0],
    [[502, {}, page], true, 2, 0],
    [[504, {}, page], true, 2, 0],
    [[503, {}, page], true, 2, 0],
    [[503, { 'retry-after': '61' }, page], true, 1],
    [[503, { 'retry-after': soon }, page], true, 2, 7_000],
  ];
  for (const [answer, mayHaveTakenEffect, attempts, wait] of cases) {
    const [status] = (next = answer);
    requests = 0;
    clock.waits.length = 0;
    const error = await failure(client.createPlant({ id: 1, name: 'a' }));
    const code = { 422: 42200, 500: 50000 }[status];
    const kind = status === 500 ? 'internal' : undefined;
    t.strictSame(summary(error), { attempts, mayHaveTakenEffect, kind, code, status });
    t.equal(requests, attempts);
    t.equal(clock.waits.length, attempts - 1);
    for (const waited of clock.waits)
      t.ok(waited >= wait! + 50 && waited <= wait! + 100, `it waits ${waited} ms`);
  }
});

t.test('a success that the contract does not promise is an ApiError that says what is wrong', async (t) => {
  let status: number, headers: Record<string, string>, body: string;
  const url = await startStranger(t, (_request, response) => {
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (headers['content-type'] === '') response.removeHeader('content-type');
    response.writeHead(status).end(body);
  });
  const client = createClient({ baseUrl: url, token: 't', clock: fastClock() });
  const calls = {
    create: () => client.createPlant({ id: 1, name: 'a', tag: 'b' }),
    list: () => client.listPlants(),
    stream: async () => {
      const seen: unknown[] = [];
      for await (const plant of client.streamPlants()) seen.push(plant);
      return seen;
    },
    delete: () => client.deletePlant(1),
  };
  const ask = (operation: keyof typeof calls, ...[next, text, type]: [number, string, string?]) => {
    status = next;
    body = text;
    headers = type === undefined ? {} : { 'content-type': type };
    return calls[operation]();
  };

  const plant = '{"name":"a","tag":"b"}';
  const deep = '['.repeat(200_000) + ']'.repeat(200_000);
  const wrongPlants: [string, RegExp][] = [
    ['{}', /: name is missing from/],
    ['{"tag":"b"}', /: name is missing from/],
    ['{"name":1}', /: name of/],
    ['{"name":"a","tag":null}', /: tag of/],
    ...['"x"', 'null', '[]', deep].map((other): [string, RegExp] => [other, /: .*of type object/]),
  ];
  const refused: [Parameters<typeof ask>, reason: RegExp][] = [];
  for (const operation of ['list', 'stream'] as const) {
    for (const other of ['{}', '"x"', 'null', '1', deep.slice(1)])
      refused.push([[operation, 200, other], /the body is not (of type array|JSON)/]);
    for (const [other, reason] of wrongPlants)
      refused.push([[operation, 200, `[${plant},${other}]`], reason]);
    for (const type of ['text/html', 'application/jsonp', ''])
      refused.push([[operation, 200, '[]', type], /the media type is .*, and should be application\/json/]);
    refused.push([[operation, 206, '[]'], /status 206/]);
  }
  for (const [other, reason] of wrongPlants) refused.push([['create', 200, other], reason]);
  for (const other of ['{"name":"A","tag":"b"}', '{"name":"a"}'])
    refused.push([['create', 200, other], /the plant is not the one that was sent/]);
  refused.push([['create', 200, plant, 'text/html; charset=utf-8'], /the media type is text\/html/]);
  refused.push([['create', 200, `${plant}{}`], /the body is not JSON/]);
  refused.push([['create', 204, ''], /status 204/], [['delete', 200, plant], /status 200/]);
  for (const [response, reason] of refused) {
    const [operation, status, text] = response;
    const name = `${operation}: ${status} ${text.slice(0, 40)}`;
    const error = await failure(ask(...response));
    const mayHaveTakenEffect = operation === 'create' || operation === 'delete';
    t.strictSame(
      summary(error),
      { attempts: 1, mayHaveTakenEffect, kind: undefined, code: undefined, status },
      name,
    );
    t.match(error.message, reason, name);
  }

  const newer = `{"name":"a","tag":"b","in":${deep}}`;
  t.match(
    await ask('create', 200, newer, 'Application/JSON ; charset=utf-8'),
    { name: 'a' },
    'a newer field',
  );
  t.match(await ask('stream', 200, `[${newer}]`), [{ name: 'a' }]);
  const etag = { 'content-type': 'application/json', etag: '"1"' };
  const caching = createClient({ baseUrl: url, token: 't' });
  [status, headers, body] = [200, etag, `[${newer}]`];
  t.match(await caching.listPlants(), [{ name: 'a' }], 'a list to keep');
  status = 304;
  t.match(await caching.listPlants(), [{ name: 'a' }], 'a kept list');
});

t.test('a body that ends early without an error counts as a lost connection', async (t) => {
  const bodies: string[] = [];
  const url = await startStranger(t, (_request, response) => {
    const body = bodies.shift()!;
    response.writeHead(body.includes('40011') ? 400 : 200).end(body);
  });
  const client = createClient({ baseUrl: url, token: 't', clock: fastClock() });
  const list = '[{"name":"]"},{"name":"b"}]';
  bodies.push('', '[', '[{"name":"]', list);
  t.strictSame(await client.listPlants(), JSON.parse(list));
  bodies.push(...['[{"name":"]"}', '[{"name":"]"},', '[{"name":"]"},{', ' [']);
  const error = await failure(client.listPlants());
  t.type(error, ConnectionError);
  t.match(error.message, /the body ends early/);
  t.strictSame(summary(error), { attempts: 4, mayHaveTakenEffect: false });

  bodies.push('{"name":"a', '{"error":40011,"message":"You already have exactly this plant."}');
  t.strictSame(await client.createPlant({ id: 1, name: 'a' }), { name: 'a' });
  bodies.push('{"name":');
  const cut = await failure(
    createClient({ baseUrl: url, token: 't', retries: 0 }).createPlant({ id: 1, name: 'a' }),
  );
  t.type(cut, ConnectionError);
  t.strictSame(summary(cut), { attempts: 1, mayHaveTakenEffect: true });
});

t.test('streamPlants yields the plants of listPlants one by one', async (t) => {
  const { subject, client, connect, fates, clock } = await startSetting(t);
  t.strictSame(await drain(client.streamPlants()), { seen: [] });
  const plants = Array.from({ length: 1_500 }, (_, i) => ({ name: `${i}` }));
  await Promise.all(
    plants.map((plant, i) => service.storage.plants.create(subject, BigInt(i), { name: plant.name })),
  );
  t.strictSame(await drain(client.streamPlants()), { seen: plants });
  t.strictSame(await drain(client.streamPlants({ limit: 3 })), { seen: plants.slice(0, 3) });
  t.match((await drain(client.streamPlants({ limit: 0 }))).error, { kind: 'invalidQuery' });

  failures.push({ reason: 'overloaded', acts: false });
  fates.push('pass', 'lose response');
  t.strictSame(await drain(client.streamPlants()), { seen: plants }, 'sent again until the list begins');
  t.equal(clock.waits.length, 2);

  fates.push('cut response');
  const { seen, error } = await drain(client.streamPlants());
  t.ok(seen.length < plants.length);
  t.strictSame(seen, plants.slice(0, seen.length));
  t.type(error, ConnectionError);
  t.match(error, { attempts: 1, mayHaveTakenEffect: false, requestId: /^[\da-f]{16}-1$/ });
  t.match(error, { message: new RegExp(`the list was cut off after ${seen.length} elements`) });

  fates.push('hold response');
  const { error: late } = await drain(connect({ timeout: 50, retries: 0 }).streamPlants());
  t.match(late, { name: 'ConnectionError', message: /no complete response within 50 ms/ });
});

t.test('a stream accepts only a complete list, however it is split into chunks', async (t) => {
  let pieces: string[];
  const url = await startStranger(t, (_request, response) => {
    // Without a length or chunks, only the end of the connection ends the body.
    response.removeHeader('transfer-encoding');
    void (async () => {
      for (const piece of pieces) await new Promise((resolve) => response.write(piece, resolve));
      response.end();
    })();
  });
  const client = createClient({ baseUrl: url, token: 't', retries: 0 });
  const ask = (...parts: string[]) => {
    pieces = parts;
    return drain(client.streamPlants());
  };
  const plants = [
    { name: '[{"\\"}]' },
    { name: '\\', tag: ',\u{1F33F}' },
    { name: '', more: { in: [{ of: [] }, ','] } },
  ];
  const whole = JSON.stringify(plants);
  const characters = (json: string) => Array.from(json);
  t.strictSame(await ask(whole), { seen: plants });
  t.strictSame(await ask(...characters(whole)), { seen: plants }, 'a character at a time');
  t.strictSame(
    await ask(...characters(JSON.stringify(plants, null, 1)), '\n'),
    { seen: plants },
    'with white space',
  );
  t.strictSame(await ask(' [', ' ', '] '), { seen: [] });
  for (const cut of ['', '[', '[{"name":"a"}', '[{"name":"a"},', '[{"name":"]']) {
    t.match((await ask(cut)).error, { name: 'ConnectionError', message: /cut off/ }, `cut off: ${cut}`);
  }
  for (const other of ['<html>', '[}', '[] []', '[]]', '[,]', '[{"name":"a"},]', '[a]']) {
    t.match(
      (await ask(other)).error,
      { name: 'ApiError', status: 200, code: undefined },
      `no list: ${other}`,
    );
  }
});

t.test('a stream that is abandoned or ended releases its connection', async (t) => {
  let closed: Promise<unknown> | undefined;
  const url = await startStranger(t, (_request, response) => {
    closed = once(response, 'close');
    response.write('[{"name":"a"},');
    pour(response, '{"name":"a"},'.repeat(1_000));
  });
  const client = createClient({ baseUrl: url, token: 't' });
  for await (const plant of client.streamPlants()) {
    t.strictSame(plant, { name: 'a' });
    break;
  }
  await closed;

  const reason = new Error('enough');
  const ended = new AbortController();
  await t.rejects(async () => {
    for await (const plant of client.streamPlants({ signal: ended.signal })) {
      t.strictSame(plant, { name: 'a' });
      ended.abort(reason);
    }
  }, reason);
  await closed;
});

t.test('a stalled stream is aborted; one with a slow reader is not', async (t) => {
  const bodies: WritableStreamDefaultWriter<Uint8Array>[] = [];
  const fetch = () => {
    const body = new TransformStream<Uint8Array, Uint8Array>();
    const writer = body.writable.getWriter();
    bodies.push(writer);
    writer.write(Buffer.from('[{"name":"a"},')).catch(() => undefined);
    return Promise.resolve(new Response(body.readable, { headers: { 'content-type': 'application/json' } }));
  };
  /** Reads a plant, then does not read until another stream has stalled for twice the timeout. */
  const readSlowly = async (timeout: number) => {
    const client = createClient({ baseUrl: 'http://127.0.0.1', token: 't', timeout, fetch });
    const seen: unknown[] = [];
    for await (const plant of client.streamPlants()) {
      seen.push(plant);
      if (seen.length > 1) continue;
      const own = bodies.at(-1)!;
      const other = client.streamPlants({ timeout: 2 * timeout });
      t.strictSame((await other.next()).value, { name: 'a' });
      const message = `no complete response within ${2 * timeout} ms`;
      await t.rejects(other.next(), { name: 'ConnectionError', message: new RegExp(message) });
      void own.write(Buffer.from('{"name":"b"}]'));
      void own.close();
    }
    return seen;
  };
  let timeout = 100;
  let seen: unknown;
  // A machine may be too slow for a timeout, but not for all of them.
  await repeatUntil(
    () => seen !== undefined,
    async () => (seen = await readSlowly((timeout *= 2)).catch(() => undefined)),
  );
  t.strictSame(seen, [{ name: 'a' }, { name: 'b' }]);
});

t.test('a stream never holds more than one plant of limited length', async (t) => {
  let answer: (response: ServerResponse) => void;
  const closed: Promise<unknown>[] = [];
  const url = await startStranger(t, (_request, response) => {
    closed.push(once(response, 'close'));
    answer(response);
  });
  const cases = [
    ['[{"name":"a"},{"name":"', 'x'],
    ['[{"name":"a"},{"name":"b","in":', '['],
    ['[{"name":"a"},', ' '],
    ['', ' '],
    ['[{"name":"a"}]', '\n'],
  ] as const;
  for (const [limit, options, endings] of [
    [16 * 1024 * 1024, {}, cases.slice(0, 1)],
    [100_000, { maxPlantBytes: 100_000 }, cases],
  ] as const) {
    const client = createClient({ baseUrl: url, token: 't', ...options });
    for (const [begin, filler] of endings) {
      answer = (response) => {
        response.write(begin);
        // Far more than the client should read.
        pour(response, filler.repeat(16_384), 4_096);
      };
      const { seen, error } = await drain(client.streamPlants());
      t.strictSame(seen, begin === '' ? [] : [{ name: 'a' }], begin);
      t.match(error, { name: 'ApiError', status: 200 }, begin);
      t.match(error, { message: new RegExp(`longer than ${limit} bytes`) });
    }
    const plant = { name: 'x'.repeat(limit - '{"name":""}'.length) };
    answer = (response) => {
      response.end(JSON.stringify([plant, plant]));
    };
    t.equal((await drain(client.streamPlants())).seen.length, 2, 'plants of exactly this length');
  }
  await Promise.all(closed);
});

t.test('a stream that sends bytes, but no plant in time, is aborted', async (t) => {
  let begin = '';
  const url = await startStranger(t, (_request, response) => {
    response.write(begin);
    const more = () => {
      if (!response.destroyed) response.write(' ', () => setImmediate(more));
    };
    more();
  });
  const client = createClient({
    baseUrl: url,
    token: 't',
    timeout: 200,
    retries: 0,
    maxPlantBytes: Infinity,
  });
  for (begin of ['', '[', '[{"name":', '[]']) {
    const { seen, error } = await drain(client.streamPlants());
    t.strictSame(seen, []);
    t.match(error, { name: 'ConnectionError', message: /no complete response within 200 ms/ }, begin);
  }
});

t.test('a stream of 40 MB takes no more than 16 MiB of heap', async (t) => {
  const plant = `{"name":"${'x'.repeat(87)}"}`;
  const url = await startStranger(t, (_request, response) => {
    response.write(`[${plant}`);
    pour(response, `,${plant}`.repeat(1_000), 400, ']');
  });
  const module = `data:text/javascript;base64,${Buffer.from(await bundle()).toString('base64')}`;
  const program = `import { createClient } from '${module}';
    let count = 0;
    for await (const plant of createClient({ baseUrl: '${url}', token: 't' }).streamPlants()) count++;
    console.log(count);`;
  const argv = ['--max-old-space-size=16', '--input-type=module', '--eval', program];
  const { stdout } = await promisify(execFile)(process.execPath, argv);
  t.equal(stdout, '400001\n');
});

t.test('an unchanged list is not sent again', async (t) => {
  const { subject, client, connect } = await startSetting(t);
  const other = await service.issue(`${subject} other`);
  const { storage } = service;
  await client.createPlant({ id: 1, name: 'a' });
  const statuses: number[] = [];
  const onAttempt = ({ answer }: Attempt) => statuses.push(answer!.status);
  const lists = [];
  for (let i = 0; i < 3; i++) {
    const list = await client.listPlants({ onAttempt });
    lists.push(list);
    t.strictSame(list, [{ name: 'a' }]);
    list[0]!.name = 'changed by the caller';
  }
  t.strictSame(statuses.splice(0), [200, 304, 304]);

  await storage.plants.create(subject, 2n, { name: 'b' });
  t.strictSame(await client.listPlants({ onAttempt }), [{ name: 'a' }, { name: 'b' }]);
  t.strictSame(await client.listPlants({ onAttempt, limit: 1 }), [{ name: 'a' }], 'another list');
  t.strictSame(await client.listPlants({ onAttempt, limit: 1 }), [{ name: 'a' }]);
  t.strictSame(statuses.splice(0), [200, 200, 304]);

  const tokens = [service.issue(subject), other, service.issue(subject)];
  const changing = connect({ token: async () => tokens.shift()! });
  await changing.listPlants({ onAttempt });
  t.strictSame(await changing.listPlants({ onAttempt }), [], "never another token's");
  t.strictSame(statuses.splice(0), [200, 200]);
});

t.test('429 is retried after Retry-After, within the timeout of the caller', async (t) => {
  const { port, token } = await startListening(t, {
    limits: { ratePerSubject: 1 },
  });
  const clock = fastClock();
  const limited = createClient({ baseUrl: `http://127.0.0.1:${port}`, token, clock, retries: 2 });
  t.strictSame(await limited.listPlants(), []);
  const error = await failure(limited.createPlant({ id: 1, name: 'a' }));
  t.match(summary(error), { attempts: 3, mayHaveTakenEffect: false, kind: 'tooManyRequests', status: 429 });
  const { retryAfter } = error as ApiError;
  t.ok(retryAfter! > 0 && retryAfter! <= 60_000);
  for (const [i, wait] of clock.waits.entries())
    t.ok(wait >= retryAfter! + 50 * 2 ** i, `wait ${i} is ${wait} ms`);
  t.equal(clock.waits.length, 2);

  let requests = 0;
  const url = await startStranger(t, (_request, response) => {
    if (++requests === 1) response.writeHead(429, { 'retry-after': '60' }).end();
    else response.end('[]');
  });
  t.strictSame(await createClient({ baseUrl: url, token, clock }).listPlants(), []);
  t.equal(requests, 2);
  requests = 0;
  const hasty = createClient({ baseUrl: url, token, clock, maxWait: 59_999 });
  t.match(await failure(hasty.listPlants()), { attempts: 1, status: 429, retryAfter: 60_000 });
});

t.test('onAttempt learns of every attempt, its response or its loss, and its request id', async (t) => {
  const { client, connect, fates } = await startSetting(t);
  const attempts: Attempt[] = [];
  const onAttempt = (attempt: Attempt) => attempts.push(attempt);
  failures.push({ reason: 'overloaded', acts: false });
  fates.push('pass', 'lose request');
  await client.createPlant({ id: 1, name: 'a' }, { onAttempt });
  await client.listPlants({ onAttempt });
  await client.deletePlant(1, { onAttempt });
  const [overloaded, lost, created] = attempts;
  const create = { operation: 'createPlant', duration: Number } as const;
  t.match(attempts, [
    { ...create, number: 1, answer: { status: 503, error: { error: 50301 } }, requestId: /^[\da-f]{16}-1$/ },
    { ...create, number: 2, answer: undefined, cause: Error, requestId: /-2$/ },
    { ...create, number: 3, answer: { status: 200, error: undefined }, cause: undefined, requestId: /-3$/ },
    { operation: 'listPlants', number: 1, answer: { status: 200 } },
    { operation: 'deletePlant', number: 1, answer: { status: 204 } },
  ]);
  for (const { answer, requestId } of attempts.filter(({ answer }) => answer !== undefined))
    t.equal(answer!.headers.get('x-request-id'), requestId);
  const bases = [overloaded, lost, created].map((attempt) => attempt!.requestId.slice(0, -2));
  t.equal(new Set(bases).size, 1, 'one call');
  t.equal(new Set(attempts.map(({ requestId }) => requestId)).size, 5);

  const reason = new Error('not expected');
  const refuse = () => {
    throw reason;
  };
  await t.rejects(client.listPlants({ onAttempt: refuse }), reason, 'what onAttempt throws ends the call');
  const calls: string[] = [];
  const observed = connect({ onAttempt: ({ operation }) => calls.push(`client ${operation}`) });
  await observed.createPlant({ id: 2, name: 'b' }, { onAttempt: ({ operation }) => calls.push(operation) });
  for await (const { name } of observed.streamPlants({ limit: 1 })) calls.push(name);
  t.strictSame(calls, ['client createPlant', 'createPlant', 'client listPlants', 'b']);
  await t.rejects(connect({ onAttempt: refuse }).listPlants(), reason);

  attempts.length = 0;
  const ended = new AbortController();
  const held = connect({
    fetch: () => {
      ended.abort(reason);
      return new Promise(() => undefined);
    },
  });
  await t.rejects(held.listPlants({ signal: ended.signal, onAttempt }), reason);
  t.match(attempts, [{ number: 1, answer: undefined, cause: reason }], 'an attempt that the caller ends');
  fates.push('lose response', 'lose response', 'lose response', 'lose response');
  const error = await failure(client.listPlants());
  t.match(error.requestId, /^[\da-f]{16}-4$/);
});

t.test('an error has the headers of its response', async (t) => {
  const { client } = await startSetting(t);
  const error = await failure(client.deletePlant(1));
  t.equal(error instanceof ApiError && error.headers.get('x-request-id'), error.requestId);
});

t.test('headers of a client and of a call are sent, except those of the client itself', async (t) => {
  const seen: IncomingHttpHeaders[] = [];
  const url = await startStranger(t, ({ headers }, response) => {
    seen.push(headers);
    response.end('[]');
  });
  const fixed = { Authorization: 'Basic eA==', 'X-Request-Id': 'mine' };
  const client = createClient({
    baseUrl: url,
    token: 't',
    headers: { 'X-Both': 'client', 'X-Mine': 'a', ...fixed },
  });
  await client.listPlants({ requestId: 'x', headers: { 'x-both': 'call', traceparent: '00-1' } });
  await client.listPlants({ headers: { 'User-Agent': 'app/1' } });
  const identity = /^plant-store-client\/\d+\.\d+\.\d+$/;
  t.match(seen, [
    {
      'x-both': 'call',
      'x-mine': 'a',
      traceparent: '00-1',
      authorization: /^Bearer t$/,
      'x-request-id': /^x-1$/,
      'user-agent': identity,
    },
    { 'x-both': 'client', 'user-agent': /^app\/1$/ },
  ]);
  await t.rejects(client.listPlants({ headers: { 'a b': 'c' } }), TypeError);
  t.equal(seen.length, 2);
});

t.test(
  'with a fetch that may send a request again, an error that speaks of the last one leaves the effect open',
  async (t) => {
    const { client, connect, stored } = await startSetting(t);
    const own = connect({ fetch: (request) => fetch(request), retries: 0 });
    await client.createPlant({ id: 1, name: 'a' });
    const overloaded = { reason: 'overloaded', acts: false } as const;
    const open: [kind: string, () => Promise<unknown>][] = [
      ['plantExists', () => own.createPlant({ id: 1, name: 'a' })],
      ['plantNotFound', () => own.deletePlant(2)],
      ['overloaded', () => (failures.push(overloaded), own.deletePlant(1))],
    ];
    for (const [kind, call] of open)
      t.match(summary(await failure(call())), { kind, mayHaveTakenEffect: true });
    const settled: [kind: string, () => Promise<unknown>][] = [
      ['idTaken', () => own.createPlant({ id: 1, name: 'b' })],
      ['invalidBody', () => own.createPlant({ id: 2, name: '\ud800' })],
      ['overloaded', () => (failures.push(overloaded), own.listPlants())],
    ];
    for (const [kind, call] of settled)
      t.match(summary(await failure(call())), { kind, mayHaveTakenEffect: false });
    failures.push(overloaded);
    const found = await failure(own.createPlant({ id: 1, name: 'a' }, { retries: 1 }));
    t.match(
      summary(found),
      { attempts: 2, kind: 'plantExists', mayHaveTakenEffect: true },
      'never taken for a success',
    );
    t.strictSame(await stored(), [{ name: 'a' }]);
  },
);

t.test('the token is requested before every attempt, and a failure to get it ends the call', async (t) => {
  const { connect, fates } = await startSetting(t);
  let asked = 0;
  const token = () => {
    asked++;
    return Promise.resolve(service.token);
  };
  fates.push('lose request');
  t.strictSame(await connect({ token }).listPlants(), []);
  t.equal(asked, 2);
  t.strictSame(await connect({ token: () => service.token }).listPlants(), []);
  const expired = new Error('log in again');
  await t.rejects(connect({ token: () => Promise.reject(expired) }).listPlants(), expired);
  await t.rejects(connect({ baseUrl: 'no URL' }).listPlants(), TypeError);
  for (const baseUrl of ['localhost:3000', 'ftp://127.0.0.1', undefined as never])
    t.throws(() => connect({ baseUrl }), {
      name: 'TypeError',
      message: /^baseUrl (?:must begin with http|is missing)/,
    });
  for (const baseUrl of ['http://127.0.0.1?tenant=a', 'http://127.0.0.1/#a', '/api?'])
    t.throws(() => connect({ baseUrl }), { name: 'TypeError', message: /no query/ });
});

t.test('a token function that hangs is ended by the timeout and by the signal', async (t) => {
  const { connect, stored } = await startSetting(t);
  const release: ((token: string) => void)[] = [];
  const token = () => new Promise<string>((resolve) => release.push(resolve));
  let sent = 0;
  const counting = (request: Request) => {
    sent++;
    return fetch(request);
  };
  const plant = { id: 1, name: 'a' };
  const hung = await failure(connect({ token, timeout: 50, retries: 1, fetch: counting }).createPlant(plant));
  t.type(hung, ConnectionError);
  t.match(hung.message, /the token function did not return: no complete response within 50 ms/);
  t.strictSame(summary(hung), { attempts: 2, mayHaveTakenEffect: false });

  const reason = new Error('enough');
  const ended = new AbortController();
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  const call = connect({ token, fetch: counting }).createPlant(plant, { signal: ended.signal });
  t.equal(timers(), before + 1);
  ended.abort(reason);
  await t.rejects(call, reason);
  t.equal(timers(), before, 'nothing keeps the process');

  t.equal(release.length, 3);
  for (const late of release) late(service.token);
  t.strictSame(await stored(), [], 'a token that comes too late sends nothing');
  t.equal(sent, 0);

  const tokens = [service.token];
  const second = connect({
    token: () => tokens.shift() ?? token(),
    timeout: 50,
    retries: 1,
    fetch: () => Promise.reject(new TypeError('lost')),
  });
  const unknown = await failure(second.createPlant(plant));
  t.strictSame(summary(unknown), { attempts: 2, mayHaveTakenEffect: true }, 'the first attempt may have');
});

t.test('a token that a header cannot carry is an error that does not contain it', async (t) => {
  for (const token of ['secret\nline', 'secret\u0000', 'secret\u20ac']) {
    const error = { name: 'TypeError', message: /^token contains an invalid character$/ };
    t.throws(() => createClient({ baseUrl: 'http://service', token }), error);
    await t.rejects(createClient({ baseUrl: 'http://service', token: () => token }).listPlants(), error);
  }
  const { connect } = await startSetting(t);
  t.strictSame(await connect({ token: `${await service.issue('of a file')}\n` }).listPlants(), []);
});

t.test('a signal ends a call: before it, while it waits for a response, and between attempts', async (t) => {
  const { client, connect, fates, stored } = await startSetting(t);
  const reason = new Error('enough');
  await t.rejects(client.createPlant({ id: 1, name: 'a' }, { signal: AbortSignal.abort(reason) }), reason);
  t.strictSame(await stored(), []);

  const during = new AbortController();
  fates.push('hold response');
  const held = connect({
    fetch: (request) => {
      setImmediate(() => {
        during.abort(reason);
      });
      return fetch(request);
    },
  });
  await t.rejects(held.listPlants({ signal: during.signal }), reason);

  // With real time: the signal ends a wait of 100 ms.
  const between = new AbortController();
  const waiting = createClient({
    baseUrl: 'http://service',
    token: 't',
    fetch: () => {
      setImmediate(() => {
        between.abort(reason);
      });
      return Promise.reject(new TypeError('lost'));
    },
  });
  await t.rejects(waiting.deletePlant(1, { signal: between.signal }), reason);
});

/** The client and its dependencies in one module, as a page loads it. */
async function bundle(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [new URL('../src/index.ts', import.meta.url).pathname],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'browser',
  });
  return outputFiles[0]!.text;
}

t.test(
  'its bundle is exact and typed in a browser, on a page of another origin',
  skipFor(noBrowser),
  async (t) => {
    const text = await bundle();
    const origin = await startStranger(t, ({ url }, response) => {
      const script = url === '/client.js';
      response.setHeader('content-type', script ? 'text/javascript' : 'text/html').end(script ? text : '');
    });
    const { port, token } = await startListening(t, { corsOrigins: [origin] });
    const page = await (await startBrowser(t)).newPage();
    await page.goto(origin);
    const seen = await page.evaluate(
      async ({ module, baseUrl, token }) => {
        const { ApiError, createClient } = (await import(module)) as typeof ClientModule;
        const client = createClient({ baseUrl, token });
        const ids = [9007199254740992n, 9007199254740993n];
        for (const id of ids) await client.createPlant({ id, name: `${id}` });
        const listed = await client.listPlants({ limit: 10 });
        await client.deletePlant(ids[1]!);
        const left = await client.listPlants();
        const error: unknown = await client.deletePlant(ids[1]!).catch((thrown: unknown) => thrown);
        if (!(error instanceof ApiError)) throw error;
        const { kind, code, status, requestId } = error;
        return { listed, left, error: { kind, code, status, requestId } };
      },
      { module: '/client.js', baseUrl: `http://127.0.0.1:${port}`, token },
    );
    t.strictSame(seen.listed, [{ name: '9007199254740992' }, { name: '9007199254740993' }]);
    t.strictSame(seen.left, [{ name: '9007199254740992' }]);
    t.match(seen.error, { kind: 'plantNotFound', code: 40400, status: 404, requestId: /^[\da-f]{16}-1$/ });
  },
);
