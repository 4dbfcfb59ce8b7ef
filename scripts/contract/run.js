// Runs a contract tester against the built server, and exits with 1 if it has a finding:
//
//   npm run test:contract -- [CASES]    Schemathesis, with every check in every phase, and CASES cases per operation
//   npm run test:testers                Specmatic
//
// The server uses an empty SQLite file, or DATABASE_URL. Another tester needs a token with both scopes and a free id, and
// must skip 429, 500 and 503.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { send } from '../lib/request.js';

const here = import.meta.dirname;
const contract = resolve(here, '../../openapi.yaml');
const [name = '', cases = '300'] = process.argv.slice(2);

/** How each tester is installed and run. @type {Record<string, (origin: string, token: string) => Promise<void>>} */
const testers = {
  /** Needs python3; its pinned versions are installed in a virtual environment next to this file. */
  async schemathesis(origin, token) {
    const environment = join(here, '.venv');
    const bin = join(environment, process.platform === 'win32' ? 'Scripts' : 'bin');
    const requirements = ['-r', join(here, 'requirements.txt')];
    await run('python3', ['-m', 'venv', environment]);
    await run(join(bin, 'pip'), [
      'install',
      '--quiet',
      '--no-compile',
      '--disable-pip-version-check',
      ...requirements,
    ]);
    const options = ['run', contract, '--url', origin, '--header', `Authorization: Bearer ${token}`];
    options.push(
      '--checks',
      'all',
      '--phases',
      'examples,coverage,fuzzing,stateful',
      '--continue-on-failure',
    );
    await run(join(bin, 'st'), [...options, '--max-examples', cases], {
      PYTHONPATH: here,
      PYTHONDONTWRITEBYTECODE: '1',
      SCHEMATHESIS_HOOKS: 'hooks',
      PLANT_STORE_TOKEN: token,
      PLANT_STORE_URL: origin,
    });
  },
  /** Needs npm and Java. */
  async specmatic(origin, token) {
    const body = '{"id":1,"name":"Monstera deliciosa"}';
    await send(origin, { method: 'POST', path: '/plants', token, body });
    await run('npm', ['install', '--silent', '--no-audit', '--no-fund', 'specmatic@2.55.1']);
    const overlay = `--overlay-file=${join(here, 'specmatic-overlay.yaml')}`;
    const test = ['test', contract, `--testBaseURL=${origin}`, overlay];
    // The program of the package ignores the exit status of the tests.
    await run('java', ['-jar', 'node_modules/specmatic/specmatic.jar', ...test], {
      SPECMATIC_GENERATIVE_TESTS: 'true',
      bearerAuth: token,
    });
  },
};

const tester = testers[name];
if (tester === undefined) throw new Error(`Name one of these: ${Object.keys(testers).join(', ')}`);
// Keeps the testers' own files out of the project's folder.
const folder = await mkdtemp(join(tmpdir(), 'plant-store-contract-'));
const { DATABASE_URL } = process.env;
const server = await startServer({ env: { ...(DATABASE_URL !== undefined && { DATABASE_URL }) } });
try {
  await tester(server.origin, await server.createToken(name));
  if (server.faults.length > 0) throw new Error(`The server logged errors:\n${server.faults.join('\n')}`);
} finally {
  await server.end();
  await rm(folder, { recursive: true, force: true });
}

/**
 * Runs a command, and shows its output.
 * @param {string} program
 * @param {string[]} argv
 * @param {Record<string, string>} [env]
 * @throws {Error} if it fails.
 */
async function run(program, argv, env) {
  const child = spawn(program, argv, { cwd: folder, stdio: 'inherit', env: { ...process.env, ...env } });
  const [status] = await once(child, 'close');
  if (status !== 0) throw new Error(`${program} ended with ${status}`);
}
