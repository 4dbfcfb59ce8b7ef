// The commands "export" and "import": what one writes, the other stores, on every engine and from what is left of a store.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { migrateStorage, openStorage } from '../../dist/storage/open.js';
import type { CollectionDefinition } from '../../dist/storage/core/interface.js';
import { emptyDatabase, noPostgres, temporaryFolder } from '../support/engines.js';
import { create, environment, fillStore, list, newDatabase, run, startServer } from '../support/processes.js';
import { skipFor } from '../support/skip.js';
import { service } from '../../../../dist/service.js';

const cli = fileURLToPath(new URL('../../../../dist/cli.js', import.meta.url));

/** Runs a command with lines on its standard input. */
async function runWith(input: string, args: string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [cli, ...args], { env: environment(env) });
  child.stdin.on('error', () => undefined).end(input);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number]>,
  ]);
  return { code, stdout, stderr };
}

const importOf = (lines: string, env: Record<string, string>) => runWith(lines, ['import'], env);
const exportOf = async (env: Record<string, string>, ...args: string[]) => {
  const { code, stdout, stderr } = await run('cli.js', ['export', ...args], env);
  if (code !== 0) throw new Error(stderr);
  return stdout;
};
/** A new store, on an engine. */
const newStore = async (t: Test, engine: 'sqlite' | 'postgres') => {
  const DATABASE_URL = engine === 'sqlite' ? (await newDatabase(t)).env.DATABASE_URL : await emptyDatabase(t);
  await migrateStorage(service, DATABASE_URL);
  return { DATABASE_URL };
};
const plants = service.collections[0] as CollectionDefinition<'int64'>;
/** Stores documents as they are. */
async function store(
  env: { DATABASE_URL: string },
  documents: readonly (readonly [string, bigint, string])[],
) {
  const storage = await openStorage(service, env.DATABASE_URL);
  const collection = storage.collection(plants);
  await Promise.all(
    documents.map(([subject, id, text]) => collection.write(subject, id, { when: 'any', text })),
  );
  await storage.close();
}

t.test('export reads while the server runs, and import says that it does', async (t) => {
  const { file, env } = await newDatabase(t);
  const server = await startServer(t, { env });
  const token = await server.createToken('alice');
  const other = await server.createToken('bob');
  for (const id of ['1', '9007199254740993'])
    t.equal((await create(server, token, `{"id":${id},"name":"a"}`)).status, 200);
  t.equal((await create(server, other, '{"id":-1,"name":"\\u2028","tag":"b"}')).status, 200);
  const line = (subject: string, id: string, document: string) =>
    `{"collection":"plants","subject":"${subject}","id":${id},"document":${document}}\n`;
  const alices = line('alice', '1', '{"name":"a"}') + line('alice', '9007199254740993', '{"name":"a"}');
  t.strictSame(await run('cli.js', ['export'], env), {
    code: 0,
    stdout: `${alices}${line('bob', '-1', '{"name":"\u2028","tag":"b"}')}{"lines":3}\n`,
    stderr: `Store: ${file}\nExported 3 documents and tokens.\n`,
  });
  t.equal(await exportOf(env, '--subject', 'alice'), `${alices}{"lines":2}\n`);
  t.match(await importOf(alices, env), { code: 1, stderr: /the store is in use by process/ });

  const withTokens = await run('cli.js', ['export', '--tokens', '--subject', 'bob'], env);
  t.match(withTokens, { code: 0, stderr: 'Exported 2 documents and tokens.\n' });
  const [tokenLine = ''] = withTokens.stdout.split('\n');
  t.match(JSON.parse(tokenLine), {
    token: { subject: 'bob', hash: createHash('sha256').update(other).digest('hex'), expiresAt: null },
  });
  t.equal(await server.end('SIGTERM'), 0);
});

t.test('import leaves what is stored as it is, and names what differs and what is wrong', async (t) => {
  const { env, file } = await fillStore(t, 3, (i) => `${i}`);
  const lines = await exportOf(env, '--tokens');
  t.strictSame(await importOf(lines, env), {
    code: 0,
    stdout: '',
    stderr: `Store: ${file}\nStored 0; 4 were stored already, 0 differ, 0 are wrong.\n`,
  });
  const key = '"collection":"plants","subject":"alice"';
  const [token = '', ...rest] = lines.split('\n');
  const other = await importOf(
    [
      token.replace('"revokedAt":null', '"revokedAt":1'),
      rest[0]!.replace('"name":"0"', '"name":"other"'),
      '',
      `{${key},"id":7,"document":{"name":"new"}}`,
      '{"lines":4}',
    ].join('\n'),
    env,
  );
  const [, id = ''] = /"id":"(\w+)"/.exec(token) ?? [];
  t.strictSame(other, {
    code: 1,
    stdout: '',
    stderr:
      `Store: ${file}\nLine 1: the token ${id} is stored, and differs\n` +
      'Line 2: plants 0 of "alice" is stored, and differs\n' +
      'Stored 1; 0 were stored already, 2 differ, 0 are wrong.\n' +
      'plant-store: what differs was left as it is stored\n',
  });
  const wrong: [line: string, reason: RegExp][] = [
    ['nonsense', /it is no JSON: /],
    ['[]', /it must be object/],
    [`{${key},"id":1}`, /it must have required property 'document'/],
    [`{${key},"id":9223372036854775808,"document":{}}`, /its id is not valid/],
    [`{${key.replace('plants', 'trees')},"id":1,"document":{}}`, /the service has no collection "trees"/],
    [`{${key},"id":1,"document":"{\\"name\\":"}`, /its document is no JSON/],
    [`{${key},"id":1,"document":"\\u0000"}`, /it\/document must match format "storable"/],
    [token.replace(/"hash":"../, '"hash":"'), /it\/token\/hash must match pattern/],
  ];
  const many = await importOf(
    [...wrong.map(([line]) => line), `{${key},"id":8,"document":{"name":"last"}}`].join('\n'),
    env,
  );
  t.match(many, { code: 65, stderr: /Stored 1; 0 were stored already, 0 differ, 8 are wrong\./ });
  for (const [i, [, reason]] of wrong.entries())
    t.match(many.stderr, new RegExp(`^Line ${i + 1}: ${reason.source}`, 'm'));
  t.match(await run('cli.js', ['import', join(dirname(file), 'none')], env), {
    code: 1,
    stderr: /the lines cannot be read: ENOENT/,
  });
  const ids = (await exportOf(env)).match(/"id":\d+,"document":\{"name":"[^"]*"/g);
  t.strictSame(
    ids,
    [0, 1, 2, '7:new', '8:last'].map((one) => {
      const [id, name = id] = String(one).split(':');
      return `"id":${id},"document":{"name":"${name}"`;
    }),
  );
});

t.test('import notices an export that was cut off, wherever that was', async (t) => {
  const { env, file } = await fillStore(t, 3, (i) => `${i}`);
  const lines = (await exportOf(env)).split('\n').slice(0, -1);
  t.equal(lines.at(-1), '{"lines":3}');
  for (const cut of [[], ['']])
    t.strictSame(await importOf([...lines.slice(0, 2), ...cut].join('\n'), env), {
      code: 65,
      stdout: '',
      stderr:
        `Store: ${file}\nStored 0; 2 were stored already, 0 differ, 0 are wrong.\n` +
        'plant-store: the last line of an export is missing; what was there was read\n',
    });
  t.match(await importOf('', env), { code: 65, stderr: /the last line of an export is missing/ });
  t.match(
    await importOf([...lines, ...lines].join('\n'), env),
    { code: 0 },
    'two exports, one after the other',
  );
});

t.test('export leaves out what is no JSON, and says so', async (t) => {
  const { env, file } = await newDatabase(t);
  await migrateStorage(service, env.DATABASE_URL);
  await store(env, [
    ['alice', 1n, '{"name":"a"}'],
    ['alice', 2n, '{"name":"b'],
  ]);
  t.strictSame(await run('cli.js', ['export'], env), {
    code: 1,
    stdout: '{"collection":"plants","subject":"alice","id":1,"document":{"name":"a"}}\n{"lines":1}\n',
    stderr:
      `Store: ${file}\nExported 1 documents and tokens.\n` +
      'plant-store: the store is damaged; what could be read was exported\n' +
      'plant-store: plants 2 of "alice" is damaged: it is no JSON\n',
  });
});

for (const subject of [undefined, 'alice'])
  t.test(`export reads a damaged store from both ends: ${subject ?? 'all subjects'}`, async (t) => {
    const { file, env } = await newDatabase(t);
    await migrateStorage(service, env.DATABASE_URL);
    const documents = Array.from(
      { length: 5_000 },
      (_, i) => ['alice', BigInt(i), JSON.stringify({ name: `${i}`.padStart(100, '0') })] as const,
    );
    await store(env, [...documents, ['bob', 1n, '{"name":"b"}']]);
    const page = 4096 * Math.floor(statSync(file).size / 2 / 4096);
    const descriptor = openSync(file, 'r+');
    writeSync(descriptor, Buffer.alloc(4096, 0xff), 0, 4096, page);
    closeSync(descriptor);
    const before = readFileSync(file);
    const args = subject === undefined ? [] : ['--subject', subject];
    const { code, stdout, stderr } = await run('cli.js', ['export', ...args], env);
    t.equal(code, 1);
    t.strictSame(readFileSync(file), before, 'nothing is changed');
    const [, last = '', first = ''] =
      /plants after (\d+) of "alice" before (\d+) of "alice" cannot be read: .*malformed/.exec(stderr) ?? [];
    const ids = [...stdout.matchAll(/"subject":"alice","id":(\d+)/g)].map(([, id]) => Number(id));
    const missing = Number(first) - Number(last) - 1;
    t.ok(missing > 0 && missing < 200, `${missing} are missing`);
    t.strictSame(
      ids.sort((a, b) => a - b),
      documents.map((_, i) => i).filter((i) => i <= Number(last) || i >= Number(first)),
    );
    t.equal(stdout.includes('"bob"'), subject === undefined);
  });

t.test('what a service keeps for a while only is not exported', async (t) => {
  const { env, file } = await fillStore(t, 1, () => 'a');
  const command = join(dirname(file), 'cli.mjs');
  const dist = (path: string) => new URL(`../../../../${path}`, import.meta.url).href;
  await writeFile(
    command,
    `import { runCommand } from '${dist('packages/server/dist/start.js')}';
    import { service } from '${dist('dist/service.js')}';
    const collections = service.collections.map((one) => ({ ...one, isTransient: true }));
    await runCommand(async () => ({ service: { ...service, collections } }));`,
  );
  t.match(await run(command, ['export', '--tokens'], env), {
    code: 0,
    stderr: /Exported 1 documents and tokens\./,
  });
});

t.test('what is exported and imported is the same on any engine', skipFor(noPostgres), async (t) => {
  const subjects = ['a', 'a b', '"', '\\', '\n', ',', '\u2028', '\ufeff', '😀', 'é', '\u007f'];
  const ids = [-(2n ** 63n), -1n, 0n, 2n ** 53n + 1n, 2n ** 63n - 1n];
  // Also what another program may have stored.
  const texts = [
    ...['{"value":"\\"\\\\\u2028\u2029\ufeff😀"}', '{ "a": 1 }', '1.0', '9007199254740993', '\nnull\r\n\t'],
    ...['{"a":12345678901234567890}', '"none"', '"e\u0301\u007f"', '{"lines":1}', '["a", 1]'],
  ];
  const all = subjects.flatMap((subject, i) =>
    ids.map((id, j) => [subject, id, texts[(i * ids.length + j) % texts.length]!] as const),
  );
  const first = await newStore(t, 'sqlite');
  await store(first, all);
  const lines = await exportOf(first);
  t.equal(lines.trimEnd().split('\n').length, all.length + 1);
  for (const engine of ['sqlite', 'postgres'] as const) {
    const next = await newStore(t, engine);
    t.match(await importOf(lines, next), { code: 0, stderr: new RegExp(`Stored ${all.length}; 0 were`) });
    const storage = await openStorage(service, next.DATABASE_URL);
    for (const [subject, id, text] of all)
      if ((await storage.collection(plants).get(subject, id)) !== text) t.fail(`${subject} ${id}`);
    await storage.close();
    t.ok((await exportOf(next)) === lines, `exported from ${engine} again`);
    t.match(await importOf(lines, next), { code: 0, stderr: new RegExp(`Stored 0; ${all.length} were`) });
  }
});

t.test('a store moves from SQLite to PostgreSQL and back', skipFor(noPostgres), async (t) => {
  const first = await fillStore(t, 3, (i) => `${i}`);
  t.match(await run('cli.js', ['token', 'create', 'bob', '--days', '1'], first.env), { code: 0 });
  const [, revoked = ''] =
    /Token (\w+) /.exec((await run('cli.js', ['token', 'create', 'alice'], first.env)).stderr) ?? [];
  t.match(await run('cli.js', ['token', 'revoke', revoked], first.env), { code: 0 });
  const tokens = async (env: Record<string, string>) =>
    (await run('cli.js', ['token', 'list'], env)).stdout.trimEnd().split('\n');
  const before = await tokens(first.env);
  t.equal(before.length, 3);
  let env: { DATABASE_URL: string } = first.env;
  for (const engine of ['postgres', 'sqlite'] as const) {
    const path = join(await temporaryFolder(t), 'moved.jsonl');
    await writeFile(path, await exportOf(env, '--tokens'));
    env = await newStore(t, engine);
    t.match(await run('cli.js', ['import', path], env), { code: 0, stderr: /Stored 6; 0 were/ });
    t.strictSame(await tokens(env), before);
    t.match(await run('cli.js', ['import', path], env), { code: 0, stderr: /Stored 0; 6 were/ });
    const server = await startServer(t, { env });
    t.equal(await (await list(server, first.token)).text(), '[{"name":"0"},{"name":"1"},{"name":"2"}]');
    await server.end('SIGTERM');
  }
});
