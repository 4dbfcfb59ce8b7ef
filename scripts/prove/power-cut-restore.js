// Cuts the power after each call of "restore": there must be the old store or the backup, never a mix of both, and no token
// that was revoked. Used by power-cut.js.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { service } from '../../dist/service.js';
import { plants, PlantRepository } from '../../dist/plants/repository.js';
import { openStorage } from '../../packages/server/dist/storage/open.js';
import { runCommand } from '../../packages/server/test/support/server-process.js';
import { readTrace, traceOptions } from '../lib/file-trace.js';
import { readImage, ReplayedDisk, withImage } from '../lib/replayed-disk.js';
import { services, subject } from './power-cut-ledger.js';

/** @typedef {import('../lib/file-trace.js').FileEvent} FileEvent */
/** @typedef {'old' | 'new'} Content */
/**
 * A traced restore: the disk before it, and what changed it. `damaged` are the bytes of the database if that is damaged.
 * @typedef {{ before: import('../lib/replayed-disk.js').Image, disk: string, events: FileEvent[], damaged?: Buffer }} Restore
 */

/** The number of plants in each store, of a page each, so that a mix is noticed. */
const count = 12;
const database = 'store/plants.db';
/** @param {string} kind */
const nameOf = (kind) => `${kind} `.repeat(600);

/** The state of the store when the restore begins. @type {Record<string, 'whole' | 'read' | 'damaged'>} */
const states = {
  'restore over a killed server': 'whole',
  'restore beside a reader': 'read',
  'restore over a damaged store': 'damaged',
};
/**
 * The results of a power failure, one kind after each call in turn. @type {import('../lib/replayed-disk.js').Left[]}
 */
const kinds = ['none', 'some', 'names', 'all'];
/** The syncs that a control ignores in the replay. @type {[name: string, files: RegExp][]} */
const controls = [
  ['restore beside a reader', /^plants\.db-wal$/],
  ['restore over a damaged store', /\.partial$/],
  ['restore over a damaged store', /^store$/],
];

/**
 * @param {(name: string, checked: number, found: string[], isControl?: boolean) => void} report
 * @throws {Error} when a restore fails.
 */
export async function proveRestores(report) {
  const folder = mkdtempSync(join(tmpdir(), 'plant-store-'));
  try {
    for (const [name, state] of Object.entries(states)) {
      const restore = await record(join(folder, name), state);
      report(name, ...(await cut(restore)));
      for (const [, files] of controls.filter(([of]) => of === name)) {
        const [checked, found] = await cut(restore, (path) => files.test(path.split('/').at(-1) ?? ''));
        report(`control: ${name}, without the syncs of ${files.source}`, checked, found, true);
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Fills a store. @param {string} file @param {Content} kind @returns {Promise<() => Promise<void>>} Closes it. */
async function fill(file, kind) {
  const storage = await openStorage(service, `file:${file}`);
  const repository = new PlantRepository(storage.collection(plants));
  const ids = Array.from({ length: count }, (_, id) => BigInt(id));
  await Promise.all(ids.map((id) => repository.create(subject, id, { name: nameOf(kind) })));
  return () => storage.close();
}

/**
 * Runs a restore under strace.
 * @param {string} root - A new folder.
 * @param {'whole' | 'read' | 'damaged'} state
 * @returns {Promise<Restore>}
 */
async function record(root, state) {
  const disk = join(root, 'disk');
  const [store, made, backup] = [join(disk, database), join(root, 'made.db'), join(root, 'backup.db')];
  mkdirSync(join(disk, 'store'), { recursive: true, mode: 0o700 });
  const environment = { DATABASE_URL: `file:${store}`, UV_USE_IO_URING: '0' };
  /** @param {string} url @param {string[]} args */
  const command = (url, ...args) =>
    runCommand(services.plants.command, { ...environment, DATABASE_URL: `file:${url}` }, ...args);
  const close = await fill(made, 'old');
  const { id } = JSON.parse(await command(made, 'token', 'create', 'revoked', '--json'));
  await command(made, 'backup', join(root, 'copy.db'));
  // The backup has other plants, and the token is valid there.
  copyFileSync(join(root, 'copy.db'), backup);
  const other = new DatabaseSync(backup);
  other.exec(`UPDATE plants SET plant = json_object('name', '${nameOf('new')}')`);
  other.close();
  await command(made, 'token', 'revoke', id);
  // As a killed server leaves them.
  for (const suffix of ['', '-wal']) copyFileSync(`${made}${suffix}`, `${store}${suffix}`);
  await close();
  if (state === 'damaged') writeFileSync(store, readFileSync(store).fill(0x55, 0, 4_096));
  const reader = state === 'read' ? new DatabaseSync(store, { readOnly: true }) : undefined;
  reader?.exec('BEGIN; SELECT count(*) FROM plants');
  const before = readImage(disk);
  const damaged = state === 'damaged' ? readFileSync(store) : undefined;

  const trace = join(root, 'trace');
  const child = spawn(
    'strace',
    [...traceOptions, '-o', trace, process.execPath, services.plants.command, 'restore', backup],
    { stdio: ['ignore', 'ignore', 'inherit'], env: { ...process.env, ...environment } },
  );
  const [status] = await once(child, 'exit');
  if (status !== 0) throw new Error(`the restore ended with ${status}`);
  const events = [];
  const replayed = new ReplayedDisk(before);
  for await (const event of readTrace(trace, disk)) {
    replayed.apply(event);
    events.push(event);
  }
  replayed.compare(disk);
  reader?.close();
  return { before, disk, events, ...(damaged && { damaged }) };
}

/**
 * Cuts the power after each call of a restore.
 * @param {Restore} restore
 * @param {(path: string) => boolean} [ignores] - Whether the sync of a file or folder has no effect.
 * @returns {Promise<[checked: number, found: string[]]>}
 */
async function cut({ before, disk, events, damaged }, ignores = () => false) {
  const replayed = new ReplayedDisk(before);
  const found = [];
  let checked = 0;
  for (const [i, event] of events.entries()) {
    if (event.kind !== 'sync' || !ignores(event.path)) replayed.apply(event);
    const isLast = i === events.length - 1;
    for (const left of isLast ? kinds : [kinds[i % kinds.length] ?? 'none']) {
      checked++;
      const content = await withImage(replayed.image(left), disk, (root) =>
        contentOf(join(root, database), damaged).catch(String),
      );
      if (content !== 'new' && (isLast || content !== 'old'))
        found.push(
          `power failure after call ${i} of ${events.length}, unsynced data kept: ${left}: ${content}`,
        );
    }
  }
  return [checked, found];
}

/**
 * Opens a store as a start does, and says what it contains.
 * @param {string} file
 * @param {Buffer | undefined} damaged
 * @returns {Promise<Content>}
 * @throws {Error} when it is a mix, or a token is valid that was revoked.
 */
async function contentOf(file, damaged) {
  const isMarked = existsSync(`${file}-restore`);
  if (damaged !== undefined && !isMarked && readFileSync(file).equals(damaged)) return 'old';
  const storage = await openStorage(service, `file:${file}`);
  try {
    for (const token of await storage.tokens.stored(''))
      if (token.revokedAt === undefined) throw new Error(`the token of ${token.subject} is valid again`);
    const { json, count: listed } = await storage.collection(plants).page(subject, { limit: 1_000 });
    const names = new Set(JSON.parse(`[${json}]`).map((/** @type {{ name: string }} */ { name }) => name));
    if (listed !== count || names.size !== 1) throw new Error(`${listed} plants, ${names.size} names`);
    if (damaged !== undefined && !isKept(file, damaged)) throw new Error('the damaged store is not kept');
    return names.has(nameOf('new')) ? 'new' : 'old';
  } finally {
    await storage.close();
  }
}

/** Whether the damaged database was moved aside as it was. @param {string} file @param {Buffer} damaged */
function isKept(file, damaged) {
  const aside = readdirSync(dirname(file)).find((name) => /^plants\.db-damaged-[-.\d]+$/.test(name));
  return aside !== undefined && readFileSync(join(dirname(file), aside)).equals(damaged);
}
