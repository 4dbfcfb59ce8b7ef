// The command contract-server: checks of contracts, and what it generates.
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { temporaryFolder } from './support/engines.js';
import { run } from './support/processes.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const server = join(root, 'packages/server');
const command = join(server, 'bin/contract-server.js');

t.test('check reports all faults and warnings of a contract', async (t) => {
  const folder = await temporaryFolder(t);
  const write = async (name: string, ...edits: [from: string, to: string][]) => {
    const text = await readFile(new URL('../../../openapi.yaml', import.meta.url), 'utf8');
    const file = join(folder, name);
    await writeFile(
      file,
      edits.reduce((edited, [from, to]) => edited.replace(from, to), text),
    );
    return { file, line: (piece: string) => text.slice(0, text.indexOf(piece)).split('\n').length };
  };
  const check = (...args: string[]) => run(command, ['check', ...args], {});
  const { file: good } = await write('good.yaml');
  const { file: weak, line } = await write('weak.yaml', [
    "        '503':\n          $ref: '#/components/responses/WriteUnavailable'\n",
    '',
  ]);
  const { file: bad } = await write(
    'bad.yaml',
    ['format: int32', 'formats: int32'],
    ['type: object', 'type: thing'],
  );
  t.strictSame(await check(good), { code: 0, stdout: '', stderr: '0 errors, 0 warnings.\n' });
  t.match(await check(good, '--strict'), { code: 0 });
  const warning =
    `${weak}:${line('      responses:')}:7 warning: /paths/~1plants/post/responses: 503 can be returned ` +
    'without being declared. Declare the status, its range or default.\n';
  t.strictSame(await check(weak), { code: 0, stdout: warning, stderr: '0 errors, 1 warning.\n' });
  t.match(await check(weak, '--strict'), { code: 1, stdout: warning });
  t.match(await check(weak, '--none'), { code: 2, stderr: /unknown option '--none'/ });
  const declared = "        '503':\n          $ref: '#/components/responses/WriteUnavailable'\n";
  const { file: weaker } = await write(
    'weaker.yaml',
    [declared, ''],
    [declared, declared.replace('503', '504')],
  );
  const stderr = '0 errors, 2 warnings. "check --verbose" lists all.\n';
  const one = `${warning.replace('weak.yaml', 'weaker.yaml').slice(0, -1)} (And at 1 other place.)\n`;
  t.strictSame(await check(weaker), { code: 0, stdout: one, stderr });
  const all = await check(weaker, '--verbose');
  t.match(all.stdout, /^.*\/post\/responses: 503 can.*\n.*\/delete\/responses: 503 can[^(]*$/);
  const { code, stdout } = await check(bad);
  t.equal(code, 1);
  t.match(stdout, /bad\.yaml:\d+:\d+ error: \S+\/formats: formats is not supported here\. Write format\.\n/);
  t.match(
    stdout,
    /bad\.yaml:\d+:\d+ error: \/components\/schemas\/\S+: "thing" is not a type\. Write one of .*\n/,
  );
  const integer = 'error:\n          type: integer\n';
  const { file: narrow } = await write('narrow.yaml', [integer, `${integer}          maximum: 999\n`]);
  t.match(await check(narrow), {
    code: 1,
    stdout:
      / error: \/paths\/~1plants\/post: Error malformedRequest does not match the contract: error .* 999\. Allow it, or render errors with renderError\.\n/,
  });
  t.match(await check(narrow, '--own-errors'), { code: 0 });
  const json = await check(bad, '--json');
  t.match(JSON.parse(json.stdout), {
    faults: [
      { pointer: /\/formats$/, line: Number, column: Number, message: /./, fix: 'Write format' },
      { pointer: /\/type$/, message: '"thing" is not a type' },
    ],
    warnings: [],
  });
  t.match(await check(join(folder, 'none.yaml')), {
    code: 1,
    stdout: '',
    stderr: /^contract-server: ENOENT.*\n$/,
  });
});

t.test('types are written, and reported when they are outdated', async (t) => {
  const folder = await temporaryFolder(t);
  const contract = join(folder, 'openapi.yaml');
  const file = join(folder, 'types.gen.ts');
  const text = await readFile(join(root, 'openapi.yaml'), 'utf8');
  await writeFile(contract, text);
  const types = (...args: string[]) => run(command, ['types', contract, file, ...args], {});
  const outdated = {
    code: 1,
    stdout: '',
    stderr: `${file} does not match ${contract}: run "contract-server types ${contract} ${file}".\n`,
  };
  t.strictSame(await types('--check'), outdated, 'there is no file yet');
  await writeFile(contract, 'openapi: 3.1.0\ninfo: { title: None, version: 1.0.0 }\n');
  t.match(await types(), { code: 0 });
  t.match(await readFile(file, 'utf8'), 'export type operationSecurity = Record<string, never>;');
  await writeFile(contract, text);
  t.strictSame(await types(), { code: 0, stdout: '', stderr: '' });
  t.match(
    await readFile(file, 'utf8'),
    /^\/\/ Generated from openapi\.yaml by "contract-server types"; do not edit/,
  );
  t.strictSame(await types('--check'), { code: 0, stdout: '', stderr: '' });
  await writeFile(contract, text.replace('operationId: createPlant', 'operationId: addPlant'));
  t.strictSame(await types('--check'), outdated);
  await writeFile(contract, text.replace('type: object', 'type: thing'));
  t.match(await types(), { code: 1, stdout: /"thing" is not a type/, stderr: /^1 error, 0 warnings\./ });
});

t.test('migrations are written for what is missing, and a changed collection is reported', async (t) => {
  const folder = await temporaryFolder(t);
  const module = join(folder, 'service.mjs');
  const define = (collections: string) =>
    writeFile(
      module,
      `export const service = { collections: [${collections}], migrations: new URL('migrations/', import.meta.url) };`,
    );
  const migrations = (...args: string[]) => run(command, ['migrations', module, ...args], {});
  const sql = (engine: string) => readdir(join(folder, 'migrations', engine));
  const beds = `{ name: 'beds', id: 'int64', column: 'bed' }`;

  t.match(await migrations(), {
    code: 1,
    stderr: /^contract-server: there is no .*; compile the service first\n$/,
  });
  await writeFile(module, '');
  t.match(await migrations(), { code: 1, stderr: /service\.mjs does not export service\n$/ });
  await define(beds);
  t.match(await migrations('--check'), {
    code: 1,
    stderr: /sqlite\/0001_beds_and_tokens\.sql is missing: run .*\n/,
  });
  t.strictSame(await sql('sqlite'), [], '--check writes nothing');
  t.match(await migrations(), {
    code: 0,
    stdout: /postgres\/0001_beds_and_tokens\.sql is new: review it\.\n$/,
  });
  t.strictSame(await migrations('--check'), { code: 0, stdout: '', stderr: '' });
  await define(`${beds}, { name: 'labels', id: 'text', column: 'label' }`);
  t.match(await migrations(), { code: 0 });
  t.strictSame(await sql('sqlite'), ['0001_beds_and_tokens.sql', '0002_labels.sql']);
  t.strictSame(await sql('postgres'), ['0001_beds_and_tokens.sql', '0002_labels.sql']);
  t.match(await migrations('--to', join(folder, 'elsewhere')), {
    code: 0,
    stdout: /elsewhere\/sqlite\/0001_/,
  });
  for (const changed of [beds.replace('int64', 'text'), beds.replace("'bed'", "'text'")]) {
    await define(changed);
    t.match(await migrations('--check'), {
      code: 1,
      stderr: /^beds is not what its migration in .* creates\..*\n/,
    });
  }
  await define(beds.replace("'bed'", "'id'"));
  t.match(await migrations(), {
    code: 1,
    stderr: /^.*SQLite cannot create beds \(duplicate column name: id\)/,
  });
});

t.test('check runs without types that are not built; new says that it needs them', async (t) => {
  const folder = await temporaryFolder(t);
  const copy = join(folder, 'packages/server');
  for (const part of ['bin', 'dist', 'package.json'])
    await cp(join(server, part), join(copy, part), {
      recursive: true,
      filter: (path) => !path.endsWith('.d.ts'),
    });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const bin = join(copy, 'bin/contract-server.js');
  const contract = join(root, 'openapi.yaml');
  const checked = { code: 0, stdout: '', stderr: '0 errors, 0 warnings.\n' };
  t.match(await run(bin, ['check', contract, '--strict'], {}), checked);
  t.match(await run(bin, ['new', join(folder, 'plants'), '--contract', contract], {}), {
    code: 1,
    stdout: '',
    stderr: `contract-server: the types that a new service needs are not built: run "npm run build" in ${folder}/\n`,
  });
});

t.test('what cannot run says what to do', async (t) => {
  const folder = await temporaryFolder(t);
  const bin = join(folder, 'packages/server/bin/contract-server.js');
  await cp(command, bin);
  t.match(await run(bin, ['--help'], {}), {
    code: 1,
    stdout: '',
    stderr: `contract-server: it is not built: run "npm run build" in ${folder}/\n`,
  });
  const old = `Node.js 99.1 or later is needed, and this is Node.js ${process.versions.node}`;
  const manifest = (node: string) =>
    writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module', engines: { node } }));
  await manifest('>=99.1');
  const build = join(folder, 'scripts/build.js');
  await mkdir(join(folder, 'scripts'));
  await cp(join(root, 'scripts/build.js'), build);
  t.match(await run(build, [], {}), { code: 1, stdout: '', stderr: `${old}.\n` });
  await manifest('>=20');
  const missing = 'What the build needs is not installed: run "npm ci" first.\n';
  t.match(await run(build, [], {}), { code: 1, stdout: '', stderr: missing });
});
