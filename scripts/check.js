// Checks everything that needs no other Node.js and no proof: generated files, types, lint, prose, and then the tests.
import { execFile, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { promisify } from 'node:util';

const tsc = 'node node_modules/typescript/bin/tsc';
const publint = 'scripts/node_modules/.bin/publint run --strict --pack false';
/** Commands that run one after the other; both lines run at the same time, since most commands use one core. */
const lines = [
  ['npm --prefix scripts run --silent lint'],
  [
    ...readdirSync(new URL('generate', import.meta.url)).map(
      (file) => `node scripts/generate/${file} --check`,
    ),
    'node scripts/imports.js',
    'node scripts/promises.js',
    `${tsc} --noEmit`,
    `${tsc} -p scripts`,
    `${tsc} -p packages/server/tsconfig.page.json`,
    'npm --prefix scripts run --silent style',
    'npm --prefix scripts run --silent contracts',
    'npm --prefix scripts run --silent prose',
    `${publint} packages/server`,
    `${publint} packages/client`,
    'scripts/node_modules/.bin/attw --pack packages/client',
  ],
];
const run = promisify(execFile);
let failed = 0;

/** Runs a command, and prints what it prints if it fails. @param {string} command */
async function check(command) {
  const [program = '', ...args] = command.split(' ');
  const output = await run(program, args, { maxBuffer: 2 ** 26 }).then(
    () => undefined,
    (/** @type {{ stdout: string, stderr: string }} */ { stdout, stderr }) => stdout + stderr,
  );
  console.log(`${output === undefined ? 'ok  ' : 'FAIL'} ${command}`);
  if (output === undefined) return;
  failed++;
  console.error(output);
}

/** Runs a script of package.json, and returns whether it succeeds. @param {...string} args */
function npm(...args) {
  return spawnSync('npm', ['run', '--silent', ...args], { stdio: 'inherit' }).status === 0;
}

// ESLint and tsc read the types of the tests' contracts.
if (!npm('build:all') || !npm('generate:tests')) process.exit(1);
await Promise.all(
  lines.map(async (steps) => {
    for (const step of steps) await check(step);
  }),
);
if (!npm('test', '--', '--built')) failed++;
process.exitCode = failed === 0 ? 0 : 1;
