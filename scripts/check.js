// Checks everything that needs no other Node.js and no proof: generated files, types, lint, prose, and then the tests.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';

/**
 * The lines of steps that run one after the other; both run at the same time, since most steps use one core.
 * @type {(readonly [name: string, command: string])[][]}
 */
const lines = [
  [['the rules of ESLint', 'npm --prefix scripts run --silent lint']],
  [
    ['the types that contracts generate', 'node scripts/generate/types.js --check'],
    ['the generated client', 'node scripts/generate/client.js --check'],
    ['the migrations', 'node scripts/generate/migrations.js --check'],
    ['the reference', 'node scripts/generate/api.js --check'],
    ['the variables', 'node scripts/generate/configuration.js --check'],
    ['the evidence', 'node scripts/generate/evidence.js --check'],
    ['the guide', 'node scripts/generate/guide.js --check'],
    ['the picture of imports', 'node scripts/generate/imports.js --check'],
    ['the tests of each promise', 'node scripts/promises.js'],
    ['the types', 'node node_modules/typescript/bin/tsc --noEmit'],
    ['the types of the scripts', 'node node_modules/typescript/bin/tsc -p scripts'],
    ['the types of the page', 'node node_modules/typescript/bin/tsc -p packages/server/tsconfig.page.json'],
    ['the form', 'npm --prefix scripts run --silent style'],
    ['the contracts', 'npm --prefix scripts run --silent contracts'],
    ['the spelling', 'npm --prefix scripts run --silent prose'],
    [
      'the package of the server',
      'scripts/node_modules/.bin/publint run packages/server --strict --pack false',
    ],
    [
      'the package of the client',
      'scripts/node_modules/.bin/publint run packages/client --strict --pack false',
    ],
    ['the types of the client', 'scripts/node_modules/.bin/attw --pack packages/client'],
  ],
];
const run = promisify(execFile);
let failed = 0;

/**
 * Runs a command, and prints what it prints if it fails.
 * @param {readonly [name: string, command: string]} step
 */
async function check([name, command]) {
  const begin = performance.now();
  const [program = '', ...args] = command.split(' ');
  const output = await run(program, args, { maxBuffer: 2 ** 26 }).then(
    () => undefined,
    (/** @type {{ stdout: string, stderr: string }} */ { stdout, stderr }) => stdout + stderr,
  );
  const seconds = ((performance.now() - begin) / 1000).toFixed(0);
  console.log(`${output === undefined ? 'ok  ' : 'FAIL'} ${name} (${seconds} s)`);
  if (output === undefined) return;
  failed++;
  console.error(`${output}\n  repeat with: ${command}`);
}

/** @param {readonly string[]} args */
async function npm(...args) {
  const child = spawn('npm', ['run', '--silent', ...args], { stdio: 'inherit' });
  const [status] = await once(child, 'exit');
  return status === 0;
}

if (!existsSync(new URL('node_modules', import.meta.url))) {
  console.error('The tools that check are not installed: run "npm ci --prefix scripts".');
  process.exit(1);
}
// ESLint and tsc read the types of the tests' contracts.
if (!(await npm('build:all')) || !(await npm('generate:tests'))) process.exit(1);
await Promise.all(
  lines.map(async (steps) => {
    for (const step of steps) await check(step);
  }),
);
if (!(await npm('test', '--', '--built'))) failed++;
process.exitCode = failed === 0 ? 0 : 1;
