// Checks what docs/containers.md promises of the image and of compose.yaml, with a real Docker daemon: prints a line for
// each step, and what the clients saw that it was done under. What the balancer does with real instances that are killed,
// with addresses and with what is not HTTP is tested without Docker, in test/deploy.
//
//   npm run prove:image -- --help
import { setTimeout as pause } from 'node:timers/promises';
import { Command } from 'commander';
import getPort from 'get-port';
import { required } from '../lib/processes.js';
import { startLoad } from './load.js';
import { derive, docker, project, run, Stack } from './image-stack.js';

/** @type {{ image?: string }} */
const options = new Command('npm run prove:image --')
  .description(
    `Needs a Docker daemon with compose, and the images that Dockerfile and compose.yaml name. Takes about ten minutes.`,
  )
  .option('--image <NAME>', 'this image, built from this checkout; without it, the image is built first')
  .parse()
  .opts();
/** The options of a container that needs no privileges, in the least memory (docs/containers.md). */
const confined = [
  ...['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges', '--user', '12345:12345'],
  ...['--memory', '256m', '--memory-swap', '256m'],
];
/** The number of changes of the number of instances, and of upgrades with a way back. */
const times = 3;

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
 * @param {() => Promise<unknown>} act
 * @param {boolean} [interrupts] - Whether the service stops meanwhile.
 */
async function underLoad(what, origin, token, act, interrupts = false) {
  const { load, finish } = startLoad([origin], [token]);
  await pause(1_000);
  const error = await act().catch((/** @type {unknown} */ reason) => reason);
  await pause(1_000);
  const isWhole = (await finish()) === 0;
  const { failed, lastFailure } = load;
  const details = `${failed} failed${failed > 0 ? `, the last one: ${lastFailure}` : ''}`;
  const isError = error instanceof Error;
  report(what, isWhole && !isError && (interrupts || failed === 0), isError ? error.message : details);
}

const { code, stderr } = await run('docker', ['compose', 'ls']);
if (code !== 0) {
  console.log(`Nothing was tried: ${stderr.trim()}`);
  process.exit(1);
}
const image = options.image ?? 'plant-store-proof:1';
if (options.image === undefined) await docker('build', '--quiet', '--tag', image, project);
await proveContainers();
const stack = await Stack.start(image);
try {
  await required('two instances serve', async () => (await stack.serving()) === 2);
  await proveRolling();
} finally {
  await stack.remove();
}

/**
 * A container serves under load, without privileges and as any user, in the least memory; and another one takes over its
 * store: some requests fail, and none is lost.
 */
async function proveContainers() {
  const [old, next] = ['plant-store-proof-old', 'plant-store-proof-next'];
  const port = await getPort({ host: '127.0.0.1' });
  const place = ['--publish', `127.0.0.1:${port}:3000`, '--volume', 'plant-store-proof:/data'];
  const healthy = (/** @type {string} */ name) =>
    required('the container is healthy', async () => {
      const status = await docker('inspect', '--format', '{{.State.Health.Status}}', name);
      return status === 'healthy';
    });
  const token = (/** @type {string} */ subject) =>
    docker('exec', old, 'plant-store', 'token', 'create', subject);
  try {
    await docker('run', '--detach', '--name', old, '--stop-timeout', '30', ...place, ...confined, image);
    await healthy(old);
    const origin = `http://127.0.0.1:${port}`;
    const wait = () => pause(20_000);
    await underLoad('without privileges, as any user, in 256 MiB', origin, await token('first'), wait);
    const replace = async () => {
      await docker('create', '--name', next, ...place, ...confined, image);
      await docker('stop', old);
      await docker('start', next);
      await healthy(next);
    };
    await underLoad('a container is replaced', origin, await token('second'), replace, true);
    const state = await docker('inspect', '--format', '{{.State.OOMKilled}} {{.State.ExitCode}}', old);
    report('  and ends with status 0', state === 'false 0', state);
  } finally {
    await run('docker', ['rm', '--force', old, next]);
    await run('docker', ['volume', 'rm', 'plant-store-proof']);
  }
}

/** Instances come and go, releases are replaced, and one that is never ready replaces none. */
async function proveRolling() {
  const origin = await stack.origin(3000);
  let loads = 0;
  const rolling = async (/** @type {string} */ what, /** @type {() => Promise<void>} */ act) =>
    underLoad(what, origin, await stack.createToken(`prover-${++loads}`), act);
  /** @param {string} to @param {boolean} succeeds */
  const upgrade = async (to, succeeds) => {
    const { code, stdout, stderr } = await stack.upgrade(to);
    if ((code === 0) !== succeeds) throw new Error(`upgrade.sh ended with ${code}: ${stdout}\n${stderr}`);
    const expected = succeeds ? to : image;
    const running = await docker('inspect', '--format', '{{.Config.Image}}', ...(await stack.instances()));
    if (running !== `${expected}\n${expected}`) throw new Error(`the instances are of ${running}`);
  };
  const [next, broken] = ['plant-store-proof:2', 'plant-store-proof:broken'];
  await derive(image, next, 'LABEL release=2');
  await derive(image, broken, 'CMD ["node", "-e", "setInterval(() => {}, 1e6)"]');
  for (let i = 1; i <= times; i++) {
    for (const count of [4, 2])
      await rolling(`${count} instances`, async () => {
        await stack.scale(count);
        await required(`${count} instances serve`, async () => (await stack.serving()) === count);
      });
    await rolling('an upgrade', () => upgrade(next, true));
    await rolling('the way back', () => upgrade(image, true));
  }
  await rolling('a release that is never ready: the old one continues', () => upgrade(broken, false));
}
