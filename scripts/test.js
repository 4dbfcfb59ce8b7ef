// Runs the tests: builds the server, the client and the tests themselves, then hands the selected files to tap.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';
import { createTemporaryFolder } from './test-folder.js';

const usage = `Usage: npm test [-- [WORD...] [OPTION...]]
       npm run test:quick

Builds everything that the tests need, then runs them. Without a WORD, leaves out test/deploy, which takes long and needs
programs that few machines have; "npm test -- deploy" runs it.

  WORD        run only the files whose path contains it: "connection", "storage/sqlite", "test/docs"
  --quick     check the types, and run the tests of the API, the contract and the storage, on SQLite only; leaves out
              connections, processes and everything else
  --built     use dist/ as it is, and compile only the tests
  --coverage  also measure which code the tests run, in all processes, and print a summary; takes longer
  OPTION      an option of tap, as --NAME=VALUE: --grep=REGEX runs the tests whose name matches. Each further --grep is for
              the tests inside them: "npm test -- plants/plants --grep=. --grep=callers"
  --help      show this help`;

/** The tests of `--quick`: what most changes can break, but none that starts the server's processes. */
const quick = [
  'contract/',
  'plants/',
  'http/request/',
  'http/security/authentication',
  'storage/storage',
  'storage/sqlite.',
];
/** What runs only when it is named. */
const leftOut = 'test/deploy/';
/** The options that are not passed on to tap. */
const own = new Set(['--quick', '--built', '--coverage']);
/** Tests use Node.js's mock timers. */
const mockTimers = ['--disable-warning=ExperimentalWarning'];
const source = 'test';
const compiled = 'dist-test';
const require = createRequire(import.meta.url);
const tap = [join(dirname(require.resolve('tap/package.json')), 'dist/esm/run.mjs')];
/** Has the configuration of tap with which it was last built; removed with the packages by "npm ci". */
const tapConfiguration = 'node_modules/.tap-configuration';

const options = process.argv.slice(2).filter((argument) => argument.startsWith('-'));
const words = process.argv.slice(2).filter((argument) => !argument.startsWith('-'));
const isQuick = options.includes('--quick');
if (options.includes('--help')) console.log(usage);
else process.exitCode = await main();

/** @returns {Promise<number>} The exit status. */
async function main() {
  if (isQuick && words.length > 0) {
    console.error('--quick selects the tests itself; leave out the words, or --quick.');
    return 1;
  }
  const files = select(isQuick ? quick : words);
  if (files.length === 0) {
    console.error(`No test file has a path that contains ${words.join(' or ')}.`);
    return 1;
  }
  if (!(await buildAll()) || !(await configureTap())) return 1;
  const given = options.filter((option) => !own.has(option));
  const nodeOptions = ['--enable-source-maps', ...mockTimers];
  if (!options.includes('--coverage')) {
    given.push('--disable-coverage');
    nodeOptions.push('--import=./scripts/test-children.js');
  }
  given.push(...nodeOptions.map((option) => `--node-arg=${option}`));
  const env = { TMPDIR: createTemporaryFolder(), ...(isQuick && { TEST_ENGINES: 'sqlite' }) };
  const results = await Promise.all([
    run(process.execPath, [...tap, 'run', ...given, ...files.map(compiledName)], env),
    isQuick ? run('npm', ['run', '--silent', 'check:types']) : true,
  ]);
  if (words.length === 0 && !isQuick) console.log(`Left out: ${leftOut}; "npm test -- deploy" runs it.`);
  return results.every(Boolean) ? 0 : 1;
}

/**
 * The test files whose path contains one of the words; all but those that must be named if there are none.
 * @param {readonly string[]} words
 */
function select(words) {
  return readdirSync(source, { recursive: true, encoding: 'utf8' })
    .map((path) => join(source, path).replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.test.ts'))
    .filter((path) =>
      words.length === 0 ? !path.startsWith(leftOut) : words.some((word) => path.includes(word)),
    )
    .sort();
}

/** @param {string} path */
function compiledName(path) {
  return path.replace(source, compiled).replace(/ts$/, 'js');
}

/** Builds dist/, dist/client/ and dist-test/. @returns {Promise<boolean>} Whether all of it compiles. */
async function buildAll() {
  rmSync(compiled, { recursive: true, force: true });
  const tests = build({
    entryPoints: ['ts', 'js', 'yaml', 'sql', 'db'].map((end) => `${source}/**/*.${end}`),
    outdir: compiled,
    outbase: source,
    loader: { '.yaml': 'copy', '.sql': 'copy', '.db': 'copy' },
    format: 'esm',
    platform: 'node',
    target: 'node20',
    sourcemap: true,
  });
  const built = options.includes('--built') || (await run('npm', ['run', '--silent', 'build:all']));
  await tests;
  return built;
}

/**
 * Builds tap with the plugins of .taprc. It does that itself, but only after it has chosen the loaders of the first run,
 * with which each file would take several times as long.
 * @returns {Promise<boolean>}
 */
async function configureTap() {
  const wanted = readFileSync('.taprc', 'utf8');
  if (existsSync(tapConfiguration) && readFileSync(tapConfiguration, 'utf8') === wanted) return true;
  if (!(await run(process.execPath, [...tap, 'build'], {}, 'ignore'))) return false;
  writeFileSync(tapConfiguration, wanted);
  return true;
}

/**
 * Runs a program, and resolves to whether it succeeds. A signal that ends this process ends the program first.
 * @param {string} program
 * @param {string[]} args
 * @param {Record<string, string>} [env]
 * @param {'inherit' | 'ignore'} [output]
 */
async function run(program, args, env = {}, output = 'inherit') {
  const child = spawn(program, args, {
    stdio: ['inherit', output, 'inherit'],
    env: { ...process.env, ...env },
    shell: process.platform === 'win32' && program === 'npm',
  });
  const forward = (/** @type {NodeJS.Signals} */ signal) => child.kill(signal);
  process.on('SIGINT', forward).on('SIGTERM', forward);
  const [status] = await once(child, 'exit');
  process.off('SIGINT', forward).off('SIGTERM', forward);
  return status === 0;
}
