// Checks what docs/containers.md promises of the image and of compose.yaml, with a real Docker daemon: prints a line for
// each step, and what the clients saw that it was done under. What the balancer does with real instances that are killed,
// with addresses and with what is not HTTP is tested without Docker, in test/deploy.
//
//   npm run prove:image
//
// Needs compose, and the images that Dockerfile and compose.yaml name. Takes about ten minutes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import getPort from 'get-port';
import { required } from '../lib/processes.js';
import { startLoad } from './load.js';

const project = resolve(import.meta.dirname, '../..');
const image = 'plant-store-proof:1';
/** The options of a container that needs no privileges, in the least memory (docs/containers.md). */
const confined = [
  ...['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges', '--user', '12345:12345'],
  ...['--memory', '256m', '--memory-swap', '256m'],
];
/** The number of changes of the number of instances, and of upgrades with a way back. */
const times = 3;

/** The folder of the stack, as an operator has it, and the settings of its commands. */
const folder = mkdtempSync(join(tmpdir(), 'plant-store-stack-'));
const env = {
  ...process.env,
  COMPOSE_PROJECT_NAME: 'plant-store-proof',
  POSTGRES_PASSWORD: 'proof',
  PLANTS_NETWORK: '172.28.91',
  PLANT_STORE_IMAGE: image,
  READY_SECONDS: '20',
};

/** Runs a program in the folder of the stack. @param {string} program @param {string[]} args */
async function run(program, ...args) {
  const child = spawn(program, args, { cwd: folder, env });
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { status, stdout, stderr };
}

/** Runs docker. @param {string[]} args @returns {Promise<string>} What it printed. @throws {Error} when it fails. */
async function docker(...args) {
  const { status, stdout, stderr } = await run('docker', ...args);
  if (status !== 0) throw new Error(`docker ${args.join(' ')}: ${stderr}`);
  return stdout.trim();
}

/** Builds an image on the one under test, with a different last line. @param {string} tag @param {string} line */
async function derive(tag, line) {
  writeFileSync(join(folder, 'Dockerfile'), `FROM ${image}\n${line}\n`);
  await docker('build', '--quiet', '--tag', tag, '--file', 'Dockerfile', 'deploy');
}

/** Prints the result of a step. @param {string} what @param {boolean} holds @param {string} details */
function report(what, holds, details) {
  if (!holds) process.exitCode = 1;
  console.log(`${holds ? 'yes' : 'NO '}  ${what.padEnd(60)} ${details}`);
}

/**
 * Does something under load.
 * @param {string} what
 * @param {string} origin
 * @param {string} token - Its subject must have no plants.
 * @param {() => unknown} act - May reject.
 * @param {boolean} [interrupts] - Whether the service stops meanwhile.
 */
async function underLoad(what, origin, token, act, interrupts = false) {
  const { load, finish } = startLoad([origin], [token]);
  await pause(1_000);
  let error;
  try {
    await act();
  } catch (reason) {
    error = String(reason);
  }
  await pause(1_000);
  const isWhole = (await finish()) === 0;
  const holds = isWhole && error === undefined && (interrupts || load.failed === 0);
  report(what, holds, error ?? `${load.failed} failed, the last one: ${load.lastFailure}`);
}

/**
 * A container serves under load, without privileges and as any user, in the least memory; and another one takes over its
 * store: some requests fail, and none is lost.
 */
async function proveContainers() {
  const [old, next] = ['plant-store-proof-old', 'plant-store-proof-next'];
  const port = await getPort({ host: '127.0.0.1' });
  const origin = `http://127.0.0.1:${port}`;
  const place = ['--publish', `127.0.0.1:${port}:3000`, '--volume', 'plant-store-proof:/data'];
  const isHealthy = async (/** @type {string} */ name) =>
    (await docker('inspect', '--format', '{{.State.Health.Status}}', name)) === 'healthy';
  const token = (/** @type {string} */ subject) =>
    docker('exec', old, 'plant-store', 'token', 'create', subject);
  try {
    await docker('run', '--detach', '--name', old, '--stop-timeout', '30', ...place, ...confined, image);
    await required('the container is healthy', () => isHealthy(old));
    const wait = () => pause(20_000);
    await underLoad('without privileges, as any user, in 256 MiB', origin, await token('first'), wait);
    const replace = async () => {
      await docker('create', '--name', next, ...place, ...confined, image);
      await docker('stop', old);
      await docker('start', next);
      await required('the next container is healthy', () => isHealthy(next));
    };
    await underLoad('a container is replaced', origin, await token('second'), replace, true);
    const state = await docker('inspect', '--format', '{{.State.OOMKilled}} {{.State.ExitCode}}', old);
    report('  and ends with status 0', state === 'false 0', state);
  } finally {
    await run('docker', 'rm', '--force', old, next);
    await run('docker', 'volume', 'rm', 'plant-store-proof');
  }
}

/** The address of a port of the balancer. @param {string} port */
const balancer = async (port) => `http://${await docker('compose', 'port', 'balancer', port)}`;

/** Waits until the balancer uses a number of instances. @param {number} count */
const instancesServe = (count) =>
  required(`${count} instances serve`, async () => {
    const table = await (await fetch(`${await balancer('8404')}/;csv`)).text();
    const rows = table.split('\n').map((line) => line.split(','));
    const up = rows.filter(
      (row) => row[0] === 'plants' && row[1]?.startsWith('instance') && row[17] === 'UP',
    );
    return up.length === count;
  });

/** Instances come and go, releases are replaced, and one that is never ready replaces none. */
async function proveStack() {
  // Any free ports instead of 3000 and 8404, which something else may use here.
  const compose = readFileSync(join(project, 'compose.yaml'), 'utf8');
  writeFileSync(join(folder, 'compose.yaml'), compose.replaceAll(/127\.0\.0\.1:\d+:/g, '127.0.0.1:0:'));
  await docker('compose', 'up', '--detach', '--no-build', '--quiet-pull');
  await instancesServe(2);
  let subjects = 0;
  /** @param {string} what @param {() => unknown} act */
  const rolling = async (what, act) => {
    const create = ['plant-store', 'token', 'create', `prover-${++subjects}`];
    const token = await docker('compose', 'exec', '-T', 'service', ...create);
    await underLoad(what, await balancer('3000'), token, act);
  };
  /** @param {string} to @param {boolean} succeeds */
  const upgrade = async (to, succeeds = true) => {
    const { status, stdout, stderr } = await run(join(folder, 'deploy/upgrade.sh'), to);
    if ((status === 0) !== succeeds) throw new Error(`upgrade.sh ended with ${status}: ${stdout}\n${stderr}`);
    const instances = await docker('compose', 'ps', '--quiet', 'service');
    const images = await docker('inspect', '--format', '{{.Config.Image}}', ...instances.split('\n'));
    const expected = succeeds ? to : image;
    if (images !== `${expected}\n${expected}`) throw new Error(`the instances are of ${images}`);
  };
  const [next, broken] = ['plant-store-proof:2', 'plant-store-proof:broken'];
  await derive(next, 'LABEL release=2');
  await derive(broken, 'CMD ["node", "-e", "setInterval(() => {}, 1e6)"]');
  for (let i = 1; i <= times; i++) {
    for (const count of [4, 2])
      await rolling(`${count} instances`, async () => {
        const options = ['--detach', '--no-build', '--no-deps', '--no-recreate'];
        await docker('compose', 'up', ...options, '--scale', `service=${count}`, 'service');
        await instancesServe(count);
      });
    await rolling('an upgrade', () => upgrade(next));
    await rolling('the way back', () => upgrade(image));
  }
  await rolling('a release that is never ready: the old one continues', () => upgrade(broken, false));
}

cpSync(join(project, 'deploy'), join(folder, 'deploy'), { recursive: true });
try {
  await docker('build', '--quiet', '--tag', image, project);
  await proveContainers();
  await proveStack();
} finally {
  await run('docker', 'compose', 'down', '--volumes', '--timeout', '5');
  rmSync(folder, { recursive: true });
}
