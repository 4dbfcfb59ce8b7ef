// Runs Specmatic against the built server, and exits with 1 if it has a finding: "npm run test:testers". Needs npm and
// Java. Schemathesis has a script of its own, "npm run test:contract"; docs/contract-testers.md has others, tried by hand.
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { send } from '../lib/request.js';

const version = '2.55.1';
const contract = fileURLToPath(new URL('../../openapi.yaml', import.meta.url));
const overlay = fileURLToPath(new URL('specmatic-overlay.yaml', import.meta.url));

const folder = await mkdtemp(join(tmpdir(), 'plant-store-testers-'));
const server = await startServer();
/** @param {string} program @param {string[]} argv @param {Record<string, string>} [env] */
const run = (program, argv, env) => {
  const { status } = spawnSync(program, argv, {
    cwd: folder,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  if (status !== 0) process.exitCode = 1;
};
try {
  const token = await server.createToken('specmatic');
  const body = '{"id":1,"name":"Monstera deliciosa"}';
  await send(server.origin, { method: 'POST', path: '/plants', token, body });
  run('npm', ['install', '--silent', '--no-audit', '--no-fund', `specmatic@${version}`]);
  const test = ['test', contract, `--testBaseURL=${server.origin}`, `--overlay-file=${overlay}`];
  // The program of the package ignores the exit status of the tests.
  run('java', ['-jar', 'node_modules/specmatic/specmatic.jar', ...test], {
    SPECMATIC_GENERATIVE_TESTS: 'true',
    bearerAuth: token,
  });
  if (server.faults.length > 0) throw new Error(`The server logged errors:\n${server.faults.join('\n')}`);
} finally {
  await server.end();
  await rm(folder, { recursive: true, force: true });
}
