// The stack of compose.yaml under load: instances come, go, are replaced and die, and the balancer shows addresses.
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { send } from '../lib/request.js';
import { clients, startLoad } from './image-load.js';
import { derive, docker, Stack, until } from './image-stack.js';

/** @typedef {import('./image.js').Report} Report */

/** How often the number of instances changes, and how often there is an upgrade and a way back. */
const times = 10;
const upgrades = 3;

/** Runs the stack through everything. @param {Report} report @param {string} image */
export async function proveRolling(report, image) {
  const stack = await Stack.start(image);
  try {
    const token = await stack.createToken('prover');
    const origin = await stack.origin(3000);
    await until('two instances serve', async () => (await stack.serving()) === 2);
    await proveHardened(report, stack);
    /** @param {string} what @param {() => Promise<void>} act @param {number} [mayFail] */
    const underLoad = async (what, act, mayFail) => {
      const load = startLoad(origin, token);
      await pause(1000);
      await act().catch((error) => {
        report.line(what, false, String(error));
      });
      await pause(1000);
      report.load(what, await load.stop(), mayFail);
    };
    await underLoad(`${times} times 2, 4 and 2 instances`, () => scaleRepeatedly(stack));
    await proveUpgrades(report, stack, image, underLoad);
    await proveDeaths(stack, underLoad);
    await proveAddresses(report, stack, image, token);
    await proveOwnResponses(report, stack, token);
  } finally {
    await stack.remove();
  }
}

/** @param {Report} report @param {Stack} stack */
async function proveHardened(report, stack) {
  const format = '{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}}';
  const found = await docker('inspect', '--format', format, ...(await stack.instances()));
  const hardened = found.split('\n').every((line) => line === 'true [ALL] [no-new-privileges:true]');
  report.line('the instances run without privileges, and without a writable root', hardened);
}

/** @param {Stack} stack */
async function scaleRepeatedly(stack) {
  for (let i = 0; i < times; i++) {
    for (const count of [4, 2]) {
      await stack.scale(count);
      await until(`${count} instances serve`, async () => (await stack.serving()) === count);
    }
  }
}

/**
 * @param {Report} report @param {Stack} stack @param {string} image
 * @param {(what: string, act: () => Promise<void>) => Promise<void>} underLoad
 */
async function proveUpgrades(report, stack, image, underLoad) {
  const images = async () => docker('inspect', '--format', '{{.Config.Image}}', ...(await stack.instances()));
  const next = 'plant-store-proof:2';
  await derive(image, next, 'LABEL release=2');
  for (let i = 1; i <= upgrades; i++) {
    for (const [what, to] of [
      ['upgrade', next],
      ['way back', image],
    ]) {
      await underLoad(`${what} ${i} of ${upgrades}`, async () => {
        const { code, stdout, stderr } = await stack.upgrade(to ?? '');
        if (code !== 0) throw new Error(`${stdout}\n${stderr}`);
        if ((await images()) !== `${to}\n${to}`) throw new Error(`the instances are of ${await images()}`);
      });
    }
  }
  for (const [what, command] of [
    ['a release that exits', '["node", "-e", "process.exit(1)"]'],
    ['a release that is never ready', '["node", "-e", "setInterval(() => {}, 1e6)"]'],
    ['a release that cannot migrate', '["node", "dist/main.js"]\nENTRYPOINT ["false"]'],
  ]) {
    const broken = 'plant-store-proof:broken';
    await derive(image, broken, `CMD ${command}`);
    await underLoad(`${what}: the old one continues`, async () => {
      const { code } = await stack.upgrade(broken);
      if (code === 0) throw new Error('the upgrade reports success');
      if ((await images()) !== `${image}\n${image}`)
        throw new Error(`the instances are of ${await images()}`);
    });
  }
  report.line('two instances of the old release are left', (await stack.serving()) === 2);
}

/**
 * @param {Stack} stack
 * @param {(what: string, act: () => Promise<void>, mayFail?: number) => Promise<void>} underLoad
 */
async function proveDeaths(stack, underLoad) {
  const [first = ''] = await stack.instances();
  await underLoad('an instance is restarted', async () => {
    await docker('restart', first);
    await until('both serve', async () => (await stack.serving()) === 2);
  });
  const kill = async () => {
    await docker('kill', '--signal', 'KILL', first);
    await until('one serves', async () => (await stack.serving()) === 1);
  };
  await underLoad('an instance is killed: only the requests that it had may fail', kill, clients);
  await underLoad('it is started again', async () => {
    await docker('start', first);
    await until('both serve', async () => (await stack.serving()) === 2);
  });
}

/** @param {Report} report @param {Stack} stack @param {string} image @param {string} token */
async function proveAddresses(report, stack, image, token) {
  const address = '172.28.91.200';
  const program = `fetch('http://balancer:3000/plants', { headers: { authorization: 'Bearer ${token}',
    'x-forwarded-for': '192.0.2.1', 'x-request-id': 'forged' } }).then((response) => response.text())`;
  const network = ['--network', 'plant-store-proof_balanced', '--ip', address];
  await docker('run', '--rm', ...network, image, 'node', '-e', program);
  const logs = await Promise.all((await stack.instances()).map((instance) => docker('logs', instance)));
  const line = logs.flatMap((log) => log.split('\n')).find((text) => text.includes('"forged"'));
  const found = line === undefined ? undefined : JSON.parse(line).address;
  report.line("the log has the client's address, not a forged one", found === address, found);
}

/** @param {Report} report @param {Stack} stack @param {string} token */
async function proveOwnResponses(report, stack, token) {
  const origin = await stack.origin(3000);
  const socket = connect(Number(new URL(origin).port), '127.0.0.1');
  socket.write('GET / x\r\n\r\n');
  const malformed = await text(socket);
  report.line('what is not HTTP receives an Error body', malformed.includes('"error":40000'));

  await docker('stop', ...(await stack.instances()));
  const { status, text: body, headers } = await send(origin, { token, path: '/plants' });
  const complete = status === 503 && JSON.parse(body).error === 50300 && headers['retry-after'] === '1';
  report.line('without an instance, the balancer responds like the service', complete, `${status} ${body}`);
}
