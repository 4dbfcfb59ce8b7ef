// Runs the tests: builds the server, the client and the tests themselves, then the selected files.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { build } from 'esbuild';
import { services } from './lib/services.js';
import { runFiles } from './test-files.js';
import { offerPostgres } from './test-postgres.js';

/**
 * The tests of `--quick`: what most changes can break, with hardly any process of the server, and without those about the
 * time that hostile texts take.
 */
const quick = [
  'test/contract/contract',
  'contract/bodies',
  'contract/exact-json',
  'contract/faults',
  'contract/responses',
  'contract/schemas',
  'plants/',
  'http/security/authentication',
  'storage/storage',
  'storage/sqlite.',
];
/**
 * Tests that take long, or need programs that few machines have. They run when named, with `--long`, and in .ci/run.
 */
const long = [
  'test/deploy/',
  'test/docs/runbook',
  'test/package',
  'packages/server/test/new',
  'packages/server/test/outside',
  'packages/server/test/http/connection/tls',
  'packages/server/test/http/pages/',
  'packages/server/test/process/resources',
  'packages/server/test/storage/postgres-plans',
];
/** The folders that have tests in test/, which are compiled to dist-test/. */
const packages = ['', 'packages/server/', 'packages/client/', ...services].filter((folder) =>
  existsSync(`${folder}test`),
);
/** Tests use Node.js's mock timers, which are experimental. */
const nodeOptions = ['--enable-source-maps', '--disable-warning=ExperimentalWarning'];
/** More files at a time than cores of a small machine: much of what they do is waiting for other processes. */
const jobs = 4;

/** A file system in memory, and more than all tests use at the same time, in bytes. */
const [memory, enough] = ['/dev/shm', 2 * 2 ** 30];

/** @type {string[]} */
const none = [];
const program = new Command('npm test --')
  .description(
    'Builds everything that the tests need, then runs them. Without a WORD, leaves out those that take long or need ' +
      'programs that few machines have; "npm test -- --long" runs them.',
  )
  .argument('[WORD...]', 'only files whose path contains one: "connection", "storage/sqlite", "test/docs"')
  .option(
    '--grep <REGEX>',
    'only tests whose name matches; each further one is for the tests inside them: --grep=. --grep=callers',
    (regex, all) => [...all, regex],
    none,
  )
  .option('--quick', 'only types, and the tests of the API, the contract and the storage, on SQLite', false)
  .option('--long', 'only those that are left out otherwise', false)
  .option('--built', 'use dist/ as it is, and compile only the tests', false)
  .option('--patience <MINUTES>', 'for how long a file may print nothing before it is ended', Number, 20)
  .showHelpAfterError()
  .parse();
const words = program.args;
/** @type {{ grep: string[], quick: boolean, long: boolean, built: boolean, patience: number }} */
const options = program.opts();
if (!(options.patience > 0)) program.error('--patience must be a number of minutes.');
if ([options.quick, options.long, words.length > 0].filter(Boolean).length > 1)
  program.error('--quick and --long select the tests themselves; leave out the words, or the option.');
// Ends the PostgreSQL of the run, too.
process.exit((await main()) ? 0 : 1);

/** @returns {Promise<boolean>} Whether all is well. */
async function main() {
  const files = select(options.quick ? quick : options.long ? long : words);
  if (files.length === 0) {
    console.error(`No test file has a path that contains ${words.join(' or ')}.`);
    return false;
  }
  const count = files.length === 1 ? '1 test file' : `${files.length} test files`;
  console.log(
    `${count}. Building ${options.built ? '' : 'the server, the client, the examples and '}the tests…`,
  );
  const begin = Date.now();
  if (!(await buildAll())) return false;
  console.log(`Built in ${Math.round((Date.now() - begin) / 1_000)} s. ${jobs} files run simultaneously.\n`);
  process.env['TMPDIR'] = createTemporaryFolder();
  await removeSettings();
  const types = options.quick ? runNpm('check:types') : true;
  const passed = await runFiles(
    files.map((name) => ({ name, script: name.replace('test/', 'dist-test/').replace(/ts$/, 'js') })),
    {
      jobs,
      nodeOptions,
      env: {
        TEST_POSTGRES_OFFER: await offerPostgres(),
        ...(options.grep.length > 0 && { TAP_GREP: options.grep.join('\n') }),
        ...(options.quick && { TEST_ENGINES: 'sqlite' }),
      },
      patience: options.patience * 60,
    },
  );
  const isWell = [passed, await types].every(Boolean);
  if (words.length === 0 && !options.quick && !options.long)
    console.log(`Left out: ${long.join(', ')}; "npm test -- --long" runs them.`);
  return isWell;
}

/**
 * The test files whose path contains one of the words; all but those that take long if there are none. Those with the
 * longest text come first, since they may take long, and the last one would take that long alone.
 * @param {readonly string[]} words
 */
function select(words) {
  return packages
    .map((folder) => `${folder}test`)
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)),
    )
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.test.ts'))
    .filter((path) =>
      words.length === 0
        ? !long.some((part) => path.startsWith(part))
        : words.some((word) => path.includes(word)),
    )
    .sort((one, other) => statSync(other).size - statSync(one).size);
}

/** Builds everything, and the tests in each dist-test/. @returns {Promise<boolean>} Whether all of it compiles. */
async function buildAll() {
  const tests = Promise.all(packages.map(compileTests));
  const built = options.built || (await runNpm('build:all'));
  await tests;
  return built;
}

/** Compiles the tests of a package, file by file. @param {string} folder - With a slash at its end. */
async function compileTests(folder) {
  const outdir = `${folder}dist-test`;
  rmSync(outdir, { recursive: true, force: true });
  await build({
    entryPoints: ['ts', 'js', 'yaml', 'sql', 'db'].map((end) => `${folder}test/**/*.${end}`),
    outdir,
    outbase: `${folder}test`,
    loader: { '.yaml': 'copy', '.sql': 'copy', '.db': 'copy' },
    plugins: [{ name: 'compiled tests', setup: importCompiled }],
    logLevel: 'error',
    format: 'esm',
    platform: 'node',
    target: 'node20',
    sourcemap: true,
  });
}

/** Imports of the tests of another package become those of what is compiled. @param {import('esbuild').PluginBuild} build */
function importCompiled(build) {
  build.onLoad({ filter: /\.[jt]s$/ }, async ({ path }) => ({
    contents: (await readFile(path, 'utf8')).replaceAll(
      /(?<='(\.\.\/)+(.+\/)?)test(?=\/[^']+\.js')/g,
      'dist-test',
    ),
    loader: path.endsWith('ts') ? 'ts' : 'js',
  }));
}

/**
 * Creates a folder for the tests' files, which goes with this process: in memory, where a sync costs nothing, if there is
 * room, and programs can run from there, as PostgreSQL does.
 */
function createTemporaryFolder() {
  const hasRoom = () => {
    const { bavail, bsize } = statfsSync(memory);
    return bavail * bsize >= enough;
  };
  const folders = existsSync(memory) && hasRoom() ? [memory, tmpdir()] : [tmpdir()];
  for (const parent of folders) {
    const folder = mkdtempSync(join(parent, 'plant-store-tests-'));
    process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
    // PostgreSQL, which may run as another user, must be able to reach its data.
    chmodSync(folder, 0o711);
    const program = join(folder, 'program');
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o700 });
    if (spawnSync(program).status === 0) return folder;
  }
  throw new Error(`no program can run from ${folders.join(' or ')}`);
}

/** Removes variables of who runs the tests: servers and connections of tests would take them for their settings. */
async function removeSettings() {
  const { variables } = await import('../packages/server/dist/process/config.js');
  for (const name of Object.keys(process.env))
    if (name in variables || /^PG|^(NOTIFY_SOCKET|WATCHDOG_USEC)$/.test(name)) delete process.env[name];
}

/** Runs a script of package.json, and resolves to whether it succeeds. @param {string} script */
async function runNpm(script) {
  const child = spawn('npm', ['run', '--silent', script], { stdio: ['ignore', 'inherit', 'inherit'] });
  const [status] = await once(child, 'exit');
  return status === 0;
}
