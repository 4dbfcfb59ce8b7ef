// Lets Schemathesis test the built server against openapi.yaml: every check, in every phase, none switched off.
//
//   npm run test:contract -- [CASES]
//
// CASES is the number of cases for each operation, 300 unless given. Schemathesis comes from PyPI, pinned, into a
// virtual environment beside this file; python3 must be there. The server runs on an empty SQLite file, or on the
// store that DATABASE_URL names.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startServer } from '../lib/server-process.js';

const here = fileURLToPath(new URL('.', import.meta.url));
const contract = fileURLToPath(new URL('../../openapi.yaml', import.meta.url));
const environment = join(here, '.venv');
const bin = join(environment, process.platform === 'win32' ? 'Scripts' : 'bin');

/**
 * Runs a command with its output shown; gives its exit status.
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

/** Makes the virtual environment, unless there is one that has what requirements.txt asks for. */
async function install() {
  const wanted = await readFile(join(here, 'requirements.txt'), 'utf8');
  const stamp = join(environment, 'installed.txt');
  if ((await readFile(stamp, 'utf8').catch(() => '')) === wanted) return;
  const made = await run('python3', ['-m', 'venv', '--clear', environment]);
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', 'requirements.txt'];
  if (made !== 0 || (await run(join(bin, 'python'), pip, { cwd: here })) !== 0) {
    throw new Error('Schemathesis could not be installed: python3 with venv, and PyPI, are needed');
  }
  await writeFile(stamp, wanted);
}

const cases = process.argv[2] ?? '300';
if (!/^[1-9]\d*$/.test(cases)) throw new Error(`CASES must be a number, not ${cases}`);
await install();
const { DATABASE_URL } = process.env;
const server = await startServer({ env: { ...(DATABASE_URL !== undefined && { DATABASE_URL }) } });
const folder = await mkdtemp(join(tmpdir(), 'schemathesis-'));
try {
  const token = await server.createToken('schemathesis');
  const options = ['run', contract, '--url', server.origin, '--header', `Authorization: Bearer ${token}`];
  options.push('--checks', 'all', '--phases', 'examples,coverage,fuzzing,stateful', '--continue-on-failure');
  process.exitCode = await run(join(bin, 'st'), [...options, '--max-examples', cases], {
    // Whatever it writes on its way is not for the project's folder.
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
    console.error(`The server has logged errors:\n${server.faults.join('\n')}`);
    process.exitCode = 1;
  }
} finally {
  await server.end();
  await rm(folder, { recursive: true, force: true });
}
