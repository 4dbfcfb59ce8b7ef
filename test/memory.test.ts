// The real process in 64 MiB of heap: lists and bodies of any size take constant memory.
import { join } from 'node:path';
import t from 'tap';
import { temporaryFolder } from './support/engines.js';
import { create, list, startServer } from './support/processes.js';
import { scopes } from '../src/domain/tokens.js';
import { issueToken } from '../src/http/security/access-token.js';
import { openStorage } from '../src/storage/open.js';

t.test('64 MiB of heap are enough for lists and bodies of any size', async (t) => {
  const env = { DATABASE_URL: `file:${join(await temporaryFolder(t), 'plants.db')}` };
  const storage = await openStorage(env.DATABASE_URL);
  const tokens = new Map<string, string>();
  for (const subject of ['many', 'large', 'writer']) {
    tokens.set(subject, (await issueToken(storage.tokens, { subject, scopes, now: Date.now() })).secret);
  }
  const fill = async (subject: string, count: number, name: (i: number) => string, at: number) => {
    for (let start = 0; start < count; start += at) {
      await Promise.all(
        Array.from({ length: at }, (_, i) =>
          storage.plants.create(subject, BigInt(start + i), { name: name(start + i) }),
        ),
      );
    }
  };
  await fill('many', 200_000, (i) => `plant ${i}`, 10_000);
  await fill('large', 5_000, (i) => `${i}:`.padEnd(100_000, 'x'), 100);
  await storage.close();

  const server = await startServer(t, {
    // With metrics, which must keep nothing per request. A slow disk or processor must not fail this test.
    env: { ...env, OPS_PORT: '0', REQUEST_TIMEOUT_SECONDS: '120', MAX_EVENT_LOOP_DELAY_MS: '0' },
    nodeArgs: ['--max-old-space-size=64'],
  });
  const token = (subject: string) => tokens.get(subject) ?? '';
  const many = (await (await list(server, token('many'))).json()) as { name: string }[];
  t.equal(many.length, 200_000);
  t.ok(
    many.every(({ name }, i) => name === `plant ${i}`),
    'all of them, in their order',
  );

  // Half a gigabyte, counted as it arrives.
  const answer = await list(server, token('large'));
  let bytes = 0;
  let plants = 0;
  for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    for (let at = chunk.indexOf(0x7b); at >= 0; at = chunk.indexOf(0x7b, at + 1)) plants++;
  }
  t.equal(plants, 5_000);
  t.equal(bytes, 5_000 * (100_000 + '{"name":""},'.length) + '[]'.length - 1);

  const name = 'x'.repeat(1_000_000);
  const writes = await Promise.all(
    Array.from({ length: 64 }, (_, i) => create(server, token('writer'), `{"id":${i},"name":"${name}"}`)),
  );
  t.strictSame(
    writes.map(({ status }) => status),
    Array.from({ length: 64 }, () => 200),
  );
  for (const write of writes) t.equal((await write.text()).length, name.length + '{"name":""}'.length);
  t.equal(((await (await list(server, token('writer'))).json()) as unknown[]).length, 64);
  t.equal(await server.end('SIGTERM'), 0);
});
