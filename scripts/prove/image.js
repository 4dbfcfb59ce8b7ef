// Checks what docs/containers.md promises of the image and of compose.yaml, with a real Docker daemon: prints a line for
// each step, and what the clients saw that it was done under. What the balancer does with real instances that are killed,
// with addresses and with what is not HTTP is tested without Docker, in test/deploy.
//
//   npm run prove:image -- --help
import { setTimeout as pause } from 'node:timers/promises';
import { Command } from 'commander';
import { required } from '../lib/processes.js';
import { startLoad } from './load.js';
import { Container, derive, docker, project, run, Stack } from './image-stack.js';

/** @type {{ image?: string }} */
const options = new Command('npm run prove:image --')
  .description(
    `Needs a Docker daemon with compose, and the images that Dockerfile and compose.yaml name. Takes about ten minutes.`,
  )
  .option('--image <NAME>', 'this image, built from this checkout; without it, the image is built first')
  .parse()
  .opts();
/** The least memory for one process, and for two threads, in MiB (docs/containers.md). */
const least = { 1: 256, 2: 384 };
/** The number of changes of the number of instances, and of upgrades with a way back. */
const times = 10;
const upgrades = 3;

/** Prints the result of a step. @param {string} what @param {boolean} holds @param {string} [details] */
function report(what, holds, details = '') {
  if (!holds) process.exitCode = 1;
  console.log(`${holds ? 'yes' : 'NO '}  ${what.padEnd(72)} ${details}`);
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
  report(what, isWhole && !(error instanceof Error) && (interrupts || failed === 0), `${failed} failed`);
  if (failed > 0) console.log(`       the last one: ${lastFailure}`);
  if (error instanceof Error) console.log(`       ${error.message}`);
}

const { code, stderr } = await run('docker', ['compose', 'ls']);
if (code !== 0) {
  console.log(`Nothing was tried: ${stderr.trim()}`);
  process.exit(1);
}
const image = options.image ?? 'plant-store-proof:1';
if (options.image === undefined) await docker('build', '--quiet', '--tag', image, project);
await proveContainer(1);
await proveContainer(2);
await proveReplacement();
const stack = await Stack.start(image);
try {
  await required('two instances serve', async () => (await stack.serving()) === 2);
  await proveRolling();
} finally {
  await stack.remove();
}

/**
 * A container without privileges, as any user, in the memory that it needs: healthy exactly when it is ready, and it
 * serves under load, without a warning.
 * @param {keyof typeof least} workers
 */
async function proveContainer(workers) {
  const container = new Container();
  const memory = `${least[workers]}m`;
  const hardened = ['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];
  const limits = ['--memory', memory, '--memory-swap', memory, '--env', `WORKERS=${workers}`];
  try {
    await container.start(image, [...hardened, ...limits, '--user', '12345:12345']);
    await container.healthy();
    /** @type {{ Start: string, End: string, ExitCode: number }[]} */
    const checks = JSON.parse(await container.inspect('{{json .State.Health.Log}}'));
    const ready = await container.ready();
    // However slow the machine is, no check that begins when it is ready may fail, and none may succeed before.
    const isRight = checks.every(({ Start, End, ExitCode }) =>
      ExitCode === 0 ? Date.parse(End) >= ready : Date.parse(Start) < ready,
    );
    report(`WORKERS=${workers}, any user, without privileges: healthy when it is ready`, isRight);
    const token = await container.createToken();
    await underLoad(`  in ${memory} of memory`, container.origin, token, () => pause(20_000));
    const warns = (await container.log()).some(({ msg }) => /memory/.test(String(msg)));
    await docker('stop', container.name);
    const state = await container.inspect('{{.State.OOMKilled}} {{.State.ExitCode}}');
    report('  without a warning, and it ends with status 0', !warns && state === 'false 0', state);
  } finally {
    await container.remove();
  }
}

/** Another container takes over the SQLite file: some requests fail, and none is lost. */
async function proveReplacement() {
  const old = new Container();
  const next = new Container();
  try {
    await old.start(image);
    await old.ready();
    Object.assign(next, { volume: old.volume, port: old.port });
    const replace = async () => {
      await next.start(image, [], 'create');
      await docker('stop', old.name);
      await docker('start', next.name);
      await next.ready();
    };
    await underLoad('a container is replaced', old.origin, await old.createToken(), replace, true);
  } finally {
    await next.remove();
    await old.remove();
  }
}

/** Instances come and go, releases are replaced, and those that do not start replace none. */
async function proveRolling() {
  const origin = await stack.origin(3000);
  let loads = 0;
  const rolling = async (/** @type {string} */ what, /** @type {() => Promise<void>} */ act) =>
    underLoad(what, origin, await stack.createToken(`prover-${++loads}`), act);
  await rolling(`${times} times 2, 4 and 2 instances`, async () => {
    for (let i = 0; i < times; i++) {
      for (const count of [4, 2]) {
        await stack.scale(count);
        await required(`${count} instances serve`, async () => (await stack.serving()) === count);
      }
    }
  });
  /** @param {string} to @param {boolean} succeeds */
  const upgrade = async (to, succeeds) => {
    const { code, stdout, stderr } = await stack.upgrade(to);
    if ((code === 0) !== succeeds) throw new Error(`upgrade.sh ended with ${code}: ${stdout}\n${stderr}`);
    const expected = succeeds ? to : image;
    const running = await docker('inspect', '--format', '{{.Config.Image}}', ...(await stack.instances()));
    if (running !== `${expected}\n${expected}`) throw new Error(`the instances are of ${running}`);
  };
  const next = 'plant-store-proof:2';
  await derive(image, next, 'LABEL release=2');
  for (let i = 1; i <= upgrades; i++) {
    await rolling(`upgrade ${i} of ${upgrades}`, () => upgrade(next, true));
    await rolling(`way back ${i} of ${upgrades}`, () => upgrade(image, true));
  }
  for (const [what, command] of [
    ['a release that exits', '["node", "-e", "process.exit(1)"]'],
    ['a release that is never ready', '["node", "-e", "setInterval(() => {}, 1e6)"]'],
    ['a release that cannot migrate', '["node", "dist/main.js"]\nENTRYPOINT ["false"]'],
  ]) {
    const broken = 'plant-store-proof:broken';
    await derive(image, broken, `CMD ${command}`);
    await rolling(`${what}: the old one continues`, () => upgrade(broken, false));
  }
}
