// Another service than the Plant Store on the same server, as processes, and what it shows to people.
import { DatabaseSync } from '@photostructure/sqlite';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { adminOf, run, startServer } from './processes.js';
import type { ServerOptions } from './server-process.js';
import { repeatUntil } from './wait.js';
import { catalogue } from '../../dist/index.js';

const root = fileURLToPath(new URL('../../../../', import.meta.url));

/** Starts a service in development mode, and reads the token that its first start prints. */
export async function startOther(t: Test, options: ServerOptions & { script: string }) {
  const server = await startServer(t, { ...options, args: [...(options.args ?? []), '--dev'] });
  await repeatUntil(
    () => /Documentation[^]*\n\n/.test(server.stderr()),
    () => once(server.child.stderr!, 'data'),
  );
  const [, token = ''] = /Access tokens +(\w+_[\w-]{43}) /.exec(server.stderr()) ?? [];
  return { server, token };
}

/**
 * Starts a service on a new store, and tests that nothing of the Plant Store is in what it, its command, its operations
 * listener and its store show.
 * @param folder - The folder of its modules main.js and cli.js.
 * @param path - A path for whose GET a token is needed.
 * @param store - A folder for the store.
 * @returns What is shown, by where it is shown.
 */
export async function testForeignParts(
  t: Test,
  { folder, path, store }: { folder: string; path: string; store: string },
): Promise<Record<string, string>> {
  const file = join(store, 'test.db');
  const env = { DATABASE_URL: `file:${file}`, OPS_PORT: '0' };
  const { server, token } = await startOther(t, { script: join(folder, 'main.js'), env });
  const shown: Record<string, string> = {
    'standard error': server.stderr(),
    metrics: await (await fetch(`${adminOf(server)}/metrics`)).text(),
    errors: JSON.stringify(catalogue),
  };
  for (const [url, authorization] of [
    ...['/docs/', '/openapi.yaml', '/openapi.json', '/none', path].map((one) => [one, `Bearer ${token}`]),
    [path, 'Bearer none'],
  ] as const) {
    const response = await fetch(server.origin + url, { headers: { authorization } });
    shown[`${response.status} ${url}`] = JSON.stringify([...response.headers]) + (await response.text());
  }
  await Promise.all(
    [['cli.js'], ['cli.js', 'token', 'create'], ['main.js']].map(async ([module = '', ...args]) => {
      const { stdout } = await run(join(folder, module), [...args, '--help'], {});
      shown[[module, ...args, '--help'].join(' ')] = stdout;
    }),
  );
  t.equal(await server.end(), 0);
  shown['log'] = JSON.stringify(server.log);
  const database = new DatabaseSync(file);
  shown['schema'] = JSON.stringify(database.prepare('SELECT * FROM sqlite_master').all());
  database.close();
  for (const [name, text] of Object.entries(shown)) {
    t.not(text, '', name);
    // The names of folders may be anything.
    const own = [root, store, dirname(folder)].reduce((rest, one) => rest.replaceAll(one, ''), text);
    t.notMatch(own, /plant|pst_/i, name);
  }
  return shown;
}
