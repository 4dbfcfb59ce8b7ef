// Proves that a power cut loses no acknowledged write, by replaying a run's system calls up to simulated power cuts.
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

Traces three processes that create and delete plants in one store. The first two are killed during a sync; the third
closes the store. The script then simulates a power cut at many points of the trace: of the unsynced data, all, none or
a random part (down to single sectors) reaches the disk. Each resulting store must be intact, contain every plant whose
creation was acknowledged, and no plant whose deletion was acknowledged. Three controls must fail: a run without syncs,
the same run with its syncs ignored, and with only the syncs ignored that a start makes before it serves writes.

  --images  number of resulting stores to check (300; some thousands take a few minutes)
  --plants  number of plants that each process creates (750)
  --help    show this help

Linux only; needs strace. Run "npm run build" first.`;

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
/** The number of the writer's sync during which the first two processes are killed. */
const lastSync = 60;
/** The number of concurrent clients. */
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
    'log syncs at startup ignored': cutPower(
      full,
      few,
      ({ path, starting }) => starting && path.endsWith('-wal'),
    ),
  };
  const { events } = full;
  console.log(
    `synchronous = FULL: ${failures.length} of ${images} stores have lost data ` +
      `(a run of three processes with ${events.length} calls)`,
  );
  for (const [name, found] of Object.entries(controls)) {
    console.log(`${name}: ${found.length} of ${few} stores have lost data (a control: must be above 0)`);
  }
  const proven = failures.length === 0 && Object.values(controls).every((found) => found.length > 0);
  for (const failure of failures.slice(0, 10)) console.error(failure);
  if (!proven) {
    console.error('FAILED: acknowledged writes do not survive a power cut, or a control did not lose data.');
    process.exit(1);
  }
}

/** An event of a run, and whether its process was starting. @typedef {DiskEvent & { starting: boolean }} RunEvent */

/**
 * Traces three consecutive processes on one store.
 * @param {'FULL' | 'OFF'} synchronous
 * @returns {Promise<{ folder: string, events: RunEvent[] }>} The folder was empty before the run.
 */
async function record(synchronous) {
  const folder = mkdtempSync(join(tmpdir(), 'plant-store-'));
  const trace = `${folder}.trace`;
  /** @type {RunEvent[]} */
  const events = [];
  for (const kill of [true, true, false]) {
    // strace counts calls per thread, and only the writer makes this many.
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
 * Runs one process: repeats the writes that the previous one left unacknowledged, then creates and deletes plants. It
 * appends `+ID?` to the file `marks` before a create and `+ID!` after its acknowledgment; `-` stands for a delete.
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
    if (outcome === 'different') throw new Error(`plant ${id} differs from the one that was created`);
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

/** The last write to a plant. @typedef {{ sign: string, acknowledged: boolean }} Mark */

/**
 * @param {string} line
 * @returns {[number, Mark][]}
 */
function parseMark(line) {
  const [, sign = '', id, end] = /^([+-])(\d+)([?!])$/.exec(line) ?? [];
  return id === undefined ? [] : [[Number(id), { sign, acknowledged: end === '!' }]];
}

/**
 * Returns the name of a plant. Some are long, so that the log needs more than one checkpoint.
 * @param {number} id
 */
function nameOf(id) {
  return `Plant ${id} `.padEnd(id % 20 === 0 ? 20_000 : id % 5 === 0 ? 1_500 : 40, 'x');
}

/**
 * Simulates power cuts at many points of a run, and checks the resulting stores.
 * @param {{ folder: string, events: RunEvent[] }} run
 * @param {number} count - The number of stores to check.
 * @param {(event: RunEvent) => boolean} [isIgnored] - Whether a sync has no effect.
 * @returns {string[]} The faults found.
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
        found.push(
          `power cut after event ${index} of ${events.length}, unsynced data kept: ${left}: ${fault}`,
        );
    }
  }
  return found;
}

/**
 * Chooses the events after which the power is cut: a third from each process's first write on, the others at random.
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
 * Opens and checks the store that a power cut left.
 * @param {Map<string, Buffer | 'folder'>} image
 * @param {string} folder
 * @param {Map<number, Mark>} plants - The last write to each plant.
 * @returns {string | undefined} The fault, if any.
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
 * Reads the names of a store's plants by id.
 * @param {string} file
 * @returns {Map<number, string>}
 * @throws {Error} when the store is corrupt.
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
