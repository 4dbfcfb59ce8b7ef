// Single containers on SQLite: without privileges, as any user, in little memory, upgraded, backed up and restored.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import getPort from 'get-port';
import { send } from '../lib/request.js';
import { startLoad } from './image-load.js';
import { docker, run, until } from './image-stack.js';

/** @typedef {import('./image.js').Report} Report */

const hardened = ['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];
/** The least memory for one process, and for two workers, in MiB (docs/containers.md). */
const least = { 1: 256, 2: 384 };

const creation = { method: 'POST', path: '/plants', body: '{"id":1,"name":"a"}' };

/** A running container with an empty store in a volume of its own. */
class Container {
  static #count = 0;
  name = `plant-store-proof-${++Container.#count}`;
  volume = this.name;
  port = 0;

  /** @param {string} image @param {string[]} [options] @param {'run' | 'create'} [command] */
  async start(image, options = [], command = 'run') {
    this.port ||= await getPort({ host: '127.0.0.1' });
    const place = ['--publish', `127.0.0.1:${this.port}:3000`, '--volume', `${this.volume}:/data`];
    const detach = command === 'run' ? ['--detach'] : [];
    const named = ['--name', this.name, '--stop-timeout', '30'];
    await docker(command, ...detach, ...named, ...place, ...options, image);
  }

  get origin() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** @param {string} format */
  inspect(format) {
    return docker('inspect', '--format', format, this.name);
  }

  healthy() {
    return until(
      'the container is healthy',
      async () => (await this.inspect('{{.State.Health.Status}}')) === 'healthy',
    );
  }

  /** When it was ready, in ms since 1970. @returns {Promise<number>} */
  ready() {
    return until('the container is ready', async () => {
      const line = (await this.log()).find(({ msg }) => msg === 'plant-store is ready');
      return Number(line?.['time'] ?? 0);
    });
  }

  /** The lines of its log. @returns {Promise<Record<string, unknown>[]>} */
  async log() {
    const { stdout } = await run('docker', ['logs', this.name]);
    return stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []));
  }

  createToken() {
    return docker('exec', this.name, 'plant-store', 'token', 'create', 'prover');
  }

  async remove() {
    await run('docker', ['rm', '--force', this.name]);
    await run('docker', ['volume', 'rm', this.volume]);
  }
}

/** @param {Report} report @param {string} image */
export async function proveContainers(report, image) {
  for (const workers of ['1', '2']) {
    for (const user of ['node', '12345:12345']) {
      await proveOne(
        report,
        image,
        ['--env', `WORKERS=${workers}`, '--user', user, ...hardened],
        `WORKERS=${workers}, user ${user}`,
      );
    }
  }
  await proveBindMount(report, image);
  await proveMemory(report, image);
  for (let i = 1; i <= 3; i++) await proveReplacement(report, image, i);
  await proveBackup(report, image);
}

/** @param {Report} report @param {string} image @param {string[]} options @param {string} what */
async function proveOne(report, image, options, what) {
  const container = new Container();
  try {
    await container.start(image, options);
    await container.healthy();
    const checks = JSON.parse(await container.inspect('{{json .State.Health.Log}}'));
    const ready = await container.ready();
    const healthy = checks.find((/** @type {{ ExitCode: number }} */ check) => check.ExitCode === 0);
    const delay = Date.parse(healthy.End) - ready;
    // However slow the machine is, no check that begins when it is ready may fail, and none may succeed before.
    const isRight = checks.every((/** @type {{ Start: string, ExitCode: number }} */ check) => {
      return Date.parse(check.Start) < ready || check.ExitCode === 0;
    });
    const token = await container.createToken();
    const { status } = await send(container.origin, { token, ...creation });
    await docker('stop', container.name);
    const exit = await container.inspect('{{.State.ExitCode}}');
    const details = `healthy ${delay} ms after it was ready`;
    report.line(
      `${what}: read-only root, no capabilities`,
      status === 200 && exit === '0' && isRight && delay >= 0,
      details,
    );
  } finally {
    await container.remove();
  }
}

/** @param {Report} report @param {string} image */
async function proveBindMount(report, image) {
  const folder = await mkdtemp(join(tmpdir(), 'plant-store-bind-'));
  const { code, stdout, stderr } = await run('docker', ['run', '--rm', '--volume', `${folder}:/data`, image]);
  const clear =
    code === 1 && stdout === '' && /^plant-store: .*permission denied.* user 1000.*\n$/.test(stderr);
  report.line('a folder that belongs to another user is reported in one line', clear, stderr.trim());
  await rm(folder, { recursive: true });
}

/** @param {Report} report @param {string} image */
async function proveMemory(report, image) {
  for (const workers of [1, 2]) {
    for (const enough of [true, false]) {
      const memory = `${enough ? least[workers === 1 ? 1 : 2] : 64 * workers}m`;
      const container = new Container();
      const options = ['--memory', memory, '--memory-swap', memory, '--env', `WORKERS=${workers}`];
      try {
        await container.start(image, options);
        if (enough) {
          await container.ready();
          const load = startLoad(container.origin, await container.createToken());
          await pause(20_000);
          report.load(`WORKERS=${workers} in ${memory} of memory, under load`, await load.stop());
          report.line(
            '  and is not killed for it',
            (await container.inspect('{{.State.OOMKilled}}')) === 'false',
          );
        }
        const warned = () =>
          container.log().then((lines) => lines.some(({ msg }) => /memory/.test(String(msg))));
        const expected = enough
          ? !(await warned())
          : await until('the log has a warning', warned, 30).catch(() => false);
        report.line(`WORKERS=${workers} in ${memory} of memory: ${enough ? 'no' : 'a'} warning`, expected);
      } finally {
        await container.remove();
      }
    }
  }
}

/** Replaces the container of one SQLite file. @param {Report} report @param {string} image @param {number} i */
async function proveReplacement(report, image, i) {
  const old = new Container();
  const next = new Container();
  try {
    await old.start(image);
    await old.ready();
    const load = startLoad(old.origin, await old.createToken());
    await pause(1000);
    Object.assign(next, { volume: old.volume, port: old.port });
    await next.start(image, [], 'create');
    await docker('stop', old.name);
    await docker('start', next.name);
    await next.ready();
    await pause(1000);
    const { sent, failures, longestGap } = await load.stop();
    const details = `${sent} sent, ${failures.length} failed, ${Math.round(longestGap)} ms without a success`;
    report.line(`the container of one SQLite file is replaced, ${i} of 3`, longestGap < 10_000, details);
  } finally {
    await next.remove();
    await old.remove();
  }
}

/** Backs up, deletes, restores and lists. @param {Report} report @param {string} image */
async function proveBackup(report, image) {
  const container = new Container();
  try {
    await container.start(image);
    await container.ready();
    const token = await container.createToken();
    await send(container.origin, { token, ...creation });
    await docker('exec', container.name, 'plant-store', 'backup', '/data/backup.db');
    const folder = await mkdtemp(join(tmpdir(), 'plant-store-backup-'));
    await docker('cp', `${container.name}:/data/backup.db`, `${folder}/plants.db`);
    await send(container.origin, { token, method: 'DELETE', path: '/plants/1' });
    await docker('stop', container.name);
    const command =
      'rm -f /data/plants.db* && install -o node -g node -m 600 /backup/plants.db /data/plants.db && sync';
    const volumes = ['--volume', `${container.volume}:/data`, '--volume', `${folder}:/backup:ro`];
    await docker('run', '--rm', ...volumes, '--user', 'root', image, 'sh', '-c', command);
    await docker('start', container.name);
    await until('it serves', () => fetch(container.origin).catch(() => undefined));
    const { text } = await send(container.origin, { token, path: '/plants' });
    report.line('a backup, restored, has what was deleted since', text === '[{"name":"a"}]', text);
    await rm(folder, { recursive: true });
  } finally {
    await container.remove();
  }
}
