// Tests the built server against openapi.yaml with Schemathesis, with every check in every phase.
//
//   npm run test:contract -- [CASES]
//
// CASES is the number of cases per operation; 300 by default. The script needs python3, and installs pinned versions
// from PyPI in a virtual environment next to this file. The server uses an empty SQLite file, or DATABASE_URL.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startServer } from '../../packages/server/test/support/server-process.js';

const here = fileURLToPath(new URL('.', import.meta.url));
const contract = fileURLToPath(new URL('../../openapi.yaml', import.meta.url));
const environment = join(here, '.venv');
const bin = join(environment, process.platform === 'win32' ? 'Scripts' : 'bin');

/**
 * Runs a command, shows its output, and resolves to its exit status.
 * @param {string} command
 * @param {string[]} arguments_
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv }} [options]
 * @returns {Promise<number>}
 */
async function run(command, arguments_, options) {
  const child = spawn(command, arguments_, { stdio: 'inherit', ...options });
  const [status] = await once(child, 'close');
  return status ?? 1;
}

/** Creates the virtual environment, unless the existing one matches requirements.txt. */
async function install() {
  const wanted = await readFile(join(here, 'requirements.txt'), 'utf8');
  const stamp = join(environment, 'installed.txt');
  if ((await readFile(stamp, 'utf8').catch(() => '')) === wanted) return;
  const made = await run('python3', ['-m', 'venv', '--clear', environment]);
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', 'requirements.txt'];
  if (made !== 0 || (await run(join(bin, 'python'), pip, { cwd: here })) !== 0) {
    throw new Error('could not install Schemathesis: check that python3 has venv and that PyPI is reachable');
  }
  await writeFile(stamp, wanted);
}

const cases = process.argv[2] ?? '300';
if (!/^[1-9]\d*$/.test(cases)) throw new Error(`CASES must be a positive integer, not ${cases}`);
await install();
const { DATABASE_URL } = process.env;
const server = await startServer({ env: { ...(DATABASE_URL !== undefined && { DATABASE_URL }) } });
const folder = await mkdtemp(join(tmpdir(), 'schemathesis-'));
try {
  const token = await server.createToken('schemathesis');
  const options = ['run', contract, '--url', server.origin, '--header', `Authorization: Bearer ${token}`];
  options.push('--checks', 'all', '--phases', 'examples,coverage,fuzzing,stateful', '--continue-on-failure');
  process.exitCode = await run(join(bin, 'st'), [...options, '--max-examples', cases], {
    // Keeps Schemathesis' own files out of the project's folder.
    cwd: folder,
    env: {
      ...process.env,
      PYTHONPATH: here,
      PYTHONDONTWRITEBYTECODE: '1',
      SCHEMATHESIS_HOOKS: 'hooks',
      PLANT_STORE_TOKEN: token,
      PLANT_STORE_URL: server.origin,
    },
  });
  if (server.faults.length > 0) {
    console.error(`The server logged errors:\n${server.faults.join('\n')}`);
    process.exitCode = 1;
  }
} finally {
  await server.end();
  await rm(folder, { recursive: true, force: true });
}
