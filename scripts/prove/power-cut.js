// Proves that a power cut loses no acknowledged write: replays the system calls of a run to what a cut may leave of them.
import { DatabaseSync } from '@photostructure/sqlite';
import { spawn, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openSqlite } from '../../dist/storage/sqlite/storage.js';
import { readTrace, ReplayedDisk, traceOptions } from '../lib/replayed-disk.js';

/** @typedef {import('../lib/replayed-disk.js').DiskEvent} DiskEvent */

const usage = `Usage: npm run prove:power-cut -- [--images NUMBER] [--plants NUMBER]

Traces a store that creates and deletes plants, is killed twice on its way into a sync, and closes in order. Then it cuts
the power at many points of the trace. Of what was not synced by then, all is left, nothing, or a random part down to
single sectors. Each store that comes of it must be whole, with every plant whose creation was acknowledged, and without
any whose deletion was. Three controls must fail: a run that does not sync, the same run with its syncs ignored, and with
those ignored that a start makes before it answers.

  --images  how many stores are checked (300; some thousands take a few minutes)
  --plants  how many plants each of the three lives creates (750)

Linux only, with strace; run "npm run build" first.`;

const { values, positionals } = parseArgs({
  options: {
    images: { type: 'string', default: '300' },
    plants: { type: 'string', default: '750' },
    help: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});
const images = Number(values.images);
const plantsOfLife = Number(values.plants);
/** The writer's sync on whose way the first lives are killed. */
const lastSync = 60;
/** How many clients write at a time. */
const clients = 8;

if (values.help) console.log(usage);
else if (!(images >= 60 && plantsOfLife >= 600)) {
  console.error('The controls need at least 60 images and 600 plants.');
  process.exitCode = 1;
} else if (positionals[0] === 'live')
  await live(positionals[1] ?? '', positionals[2] === 'OFF' ? 'OFF' : 'FULL');
else await prove();

async function prove() {
  if (spawnSync('strace', ['-V']).error !== undefined) {
    console.error('SKIPPED: the replay of power cuts needs strace, which is not installed.');
    process.exit(process.env['CI'] ? 1 : 0);
  }
  const full = await record('FULL');
  const off = await record('OFF');
  const few = Math.ceil(images / 5);
  const failures = cutPower(full, images);
  const controls = {
    'synchronous = OFF': cutPower(off, few),
    'syncs ignored': cutPower(full, few, ({ path }) => path.includes('.db')),
    'syncs of the log at a start ignored': cutPower(
      full,
      few,
      ({ path, starting }) => starting && path.endsWith('-wal'),
    ),
  };
  const { events } = full;
  console.log(
    `synchronous = FULL: ${failures.length} of ${images} images, of a run of ${events.length} calls in three lives, ` +
      'have lost anything',
  );
  for (const [name, found] of Object.entries(controls)) {
    console.log(`${name}: ${found.length} of ${few} images have lost something, so the proof can fail`);
  }
  const proven = failures.length === 0 && Object.values(controls).every((found) => found.length > 0);
  for (const failure of failures.slice(0, 10)) console.error(failure);
  if (!proven) {
    console.error(
      'FAILED: what was acknowledged does not survive a power cut, or the controls do not show it.',
    );
    process.exit(1);
  }
}

/** An event of a run, and whether a life was still starting then. @typedef {DiskEvent & { starting: boolean }} RunEvent */

/**
 * Traces three lives of a store.
 * @param {'FULL' | 'OFF'} synchronous
 * @returns {Promise<{ folder: string, events: RunEvent[] }>} The folder is what was empty before the run.
 */
async function record(synchronous) {
  const folder = mkdtempSync(join(tmpdir(), 'plant-store-'));
  const trace = `${folder}.trace`;
  /** @type {RunEvent[]} */
  const events = [];
  for (const kill of [true, true, false]) {
    // Each thread's calls are counted by themselves, and only the writer makes so many.
    const ends = ['-e', `inject=fsync,fdatasync:signal=SIGKILL:when=${lastSync}`];
    const self = [process.execPath, fileURLToPath(import.meta.url), 'live', folder, synchronous];
    const options = [...traceOptions, ...(kill && synchronous === 'FULL' ? ends : []), '-o', trace];
    const life = spawn('strace', [...options, ...self, '--plants', values.plants], {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, UV_USE_IO_URING: '0' },
    });
    const [status] = await once(life, 'exit');
    if (status !== 0 && !kill) throw new Error('the store failed');
    let starting = true;
    for await (const event of readTrace(trace, folder, events.length)) {
      starting &&= !isMark(event);
      events.push({ ...event, starting });
    }
    rmSync(trace);
  }
  rmSync(folder, { recursive: true });
  return { folder, events };
}

/**
 * One life: does what the last one left in doubt once more, then creates and deletes plants. In the folder, the file
 * `marks` gets a line `+ID?` before a create and `+ID!` when it is acknowledged, and the like with `-` for a delete.
 * @param {string} folder
 * @param {'FULL' | 'OFF'} synchronous
 */
async function live(folder, synchronous) {
  const path = join(folder, 'marks');
  const known = new Map(existsSync(path) ? readFileSync(path, 'utf8').split('\n').flatMap(parseMark) : []);
  const marks = openSync(path, 'a');
  const storage = await openSqlite({ file: join(folder, 'store', 'plants.db'), synchronous });
  /** @type {(sign: string, id: number) => Promise<void>} */
  const write = async (sign, id) => {
    writeSync(marks, `${sign}${id}?\n`);
    const outcome = await (sign === '+'
      ? storage.plants.create('s', BigInt(id), { name: nameOf(id) })
      : storage.plants.delete('s', BigInt(id)));
    if (outcome === 'different') throw new Error(`plant ${id} is another`);
    writeSync(marks, `${sign}${id}!\n`);
  };
  for (const [id, { sign, acknowledged }] of known) if (!acknowledged) await write(sign, id);
  let next = known.size;
  const end = next + plantsOfLife;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (next < end) {
        const id = next++;
        await write('+', id);
        if (randomInt(3) === 0) await write('-', id);
      }
    }),
  );
  await storage.close();
}

/** @param {DiskEvent} event */
function isMark({ kind, path }) {
  return kind === 'write' && path.endsWith('/marks');
}

/** What became of a plant last. @typedef {{ sign: string, acknowledged: boolean }} Mark */

/**
 * @param {string} line
 * @returns {[number, Mark][]}
 */
function parseMark(line) {
  const [, sign = '', id, end] = /^([+-])(\d+)([?!])$/.exec(line) ?? [];
  return id === undefined ? [] : [[Number(id), { sign, acknowledged: end === '!' }]];
}

/**
 * Some plants are long, so that the log is written back more than once.
 * @param {number} id
 */
function nameOf(id) {
  return `Plant ${id} `.padEnd(id % 20 === 0 ? 20_000 : id % 5 === 0 ? 1_500 : 40, 'x');
}

/**
 * Cuts the power at many points of a run, and checks what may be left.
 * @param {{ folder: string, events: RunEvent[] }} run
 * @param {number} count - How many stores are checked.
 * @param {(event: RunEvent) => boolean} [isIgnored] - The syncs that have no effect.
 * @returns {string[]} What is wrong with them.
 */
function cutPower({ folder, events }, count, isIgnored = () => false) {
  const disk = new ReplayedDisk();
  /** @type {Map<number, Mark>} */
  const plants = new Map();
  /** @type {string[]} */
  const found = [];
  const cuts = cutPoints(events, Math.ceil(count / 3));
  let checked = 0;
  for (const [index, event] of events.entries()) {
    if (isMark(event) && 'data' in event) {
      for (const [id, mark] of event.data.toString().split('\n').flatMap(parseMark)) plants.set(id, mark);
      disk.skip();
    } else if (event.path.endsWith('/marks') || (event.kind === 'sync' && isIgnored(event))) disk.skip();
    else disk.apply(event);
    if (!cuts.has(index)) continue;
    for (const left of /** @type {const} */ (['none', 'some', 'all'])) {
      if (checked++ >= count) break;
      const fault = check(disk.image(left), folder, plants);
      if (fault !== undefined)
        found.push(`cut behind event ${index} of ${events.length}, left ${left}: ${fault}`);
    }
  }
  return found;
}

/**
 * The events behind which the power is cut: a third of them the first that a life acknowledges, the others anywhere.
 * @param {RunEvent[]} events
 * @param {number} count
 */
function cutPoints(events, count) {
  const starts = events.flatMap(({ starting }, i) =>
    starting && events[i + 1]?.starting === false ? [i + 1] : [],
  );
  /** @type {Set<number>} */
  const cuts = new Set();
  for (let i = 0; cuts.size < count / 3 && i < count; i++) {
    for (const start of starts) cuts.add(Math.min(start + i, events.length - 1));
  }
  while (cuts.size < Math.min(count, events.length)) cuts.add(randomInt(events.length));
  return cuts;
}

/**
 * Opens what a power cut has left.
 * @param {Map<string, Buffer | 'folder'>} image
 * @param {string} folder
 * @param {Map<number, Mark>} plants - What became of each.
 * @returns {string | undefined} What is wrong.
 */
function check(image, folder, plants) {
  const root = mkdtempSync(join(tmpdir(), 'plant-store-image-'));
  try {
    for (const [path, content] of image) {
      const copy = path.replace(folder, root);
      mkdirSync(content === 'folder' ? copy : dirname(copy), { recursive: true });
      if (content !== 'folder') writeFileSync(copy, content);
    }
    const names = readNames(join(root, 'store', 'plants.db'));
    const lost = [...plants].filter(
      ([id, { sign, acknowledged }]) => acknowledged && sign === '+' && !names.has(id),
    );
    const back = [...plants].filter(
      ([id, { sign, acknowledged }]) => acknowledged && sign === '-' && names.has(id),
    );
    const wrong = [...names].filter(([id, name]) => name !== nameOf(id) || !plants.has(id));
    if (lost.length + back.length + wrong.length === 0) return undefined;
    return `${lost.length} plants lost, ${back.length} back, ${wrong.length} wrong`;
  } catch (error) {
    return String(error);
  } finally {
    rmSync(root, { recursive: true });
  }
}

/**
 * The plants of a store, when it is whole.
 * @param {string} file
 * @returns {Map<number, string>}
 */
function readNames(file) {
  if (!existsSync(file)) return new Map();
  const database = new DatabaseSync(file);
  try {
    database.exec('PRAGMA synchronous = OFF');
    const verdict = database.prepare('PRAGMA integrity_check').all();
    if (verdict.length !== 1 || Object.values(verdict[0] ?? {})[0] !== 'ok')
      throw new Error(JSON.stringify(verdict));
    const made = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'plants'").get();
    const rows = made === undefined ? [] : database.prepare('SELECT id, name FROM plants').all();
    return new Map(rows.map((row) => [Number(row['id']), String(row['name'])]));
  } finally {
    database.close();
  }
}
