// Runs Schemathesis against the built server, with every check in every phase, and CASES cases for each operation; exits with
// 1 if it has a finding: npm run test:contract -- [CASES]. Needs python3; the pinned versions are installed in a virtual
// environment next to this file. The server uses an empty SQLite file, or DATABASE_URL.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { startServer } from '../../packages/server/test/support/server-process.js';

const here = import.meta.dirname;
const contract = resolve(here, '../../openapi.yaml');
const [cases = '300'] = process.argv.slice(2);
const bin = join(here, '.venv/bin');
// Keeps the tester's own files out of the project's folder.
const folder = await mkdtemp(join(tmpdir(), 'plant-store-contract-'));
const { DATABASE_URL } = process.env;
const server = await startServer({ env: { ...(DATABASE_URL !== undefined && { DATABASE_URL }) } });
try {
  const token = await server.createToken('tester');
  await run('python3', '-m', 'venv', join(here, '.venv'));
  const quiet = ['--quiet', '--no-compile', '--disable-pip-version-check'];
  await run(join(bin, 'pip'), 'install', ...quiet, '-r', join(here, 'requirements.txt'));
  Object.assign(process.env, {
    PYTHONPATH: here,
    PYTHONDONTWRITEBYTECODE: '1',
    SCHEMATHESIS_HOOKS: 'hooks',
    PLANT_STORE_TOKEN: token,
    PLANT_STORE_URL: server.origin,
  });
  const target = [contract, '--url', server.origin, '--header', `Authorization: Bearer ${token}`];
  const scope = '--checks all --phases examples,coverage,fuzzing,stateful --continue-on-failure'.split(' ');
  await run(join(bin, 'st'), 'run', ...target, ...scope, '--max-examples', cases);
  if (server.faults.length > 0) throw new Error(`The server logged errors:\n${server.faults.join('\n')}`);
} finally {
  await server.end();
  await rm(folder, { recursive: true, force: true });
}

/**
 * Runs a command, and shows its output.
 * @param {string} program
 * @param {string[]} argv
 * @throws {Error} if it fails.
 */
async function run(program, ...argv) {
  const child = spawn(program, argv, { cwd: folder, stdio: 'inherit' });
  const [status] = await once(child, 'close');
  if (status !== 0) throw new Error(`${program} ended with ${status}`);
}
