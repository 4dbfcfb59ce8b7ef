// Checks that a power failure loses no acknowledged write, by replaying a run's system calls up to simulated power failures.
import { randomInt } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Command } from 'commander';
import { ReplayedDisk, writeImage } from '../lib/replayed-disk.js';
import { isDone, Ledger } from './power-cut-ledger.js';
import { proveRestores } from './power-cut-restore.js';
import { makeScenarios, record, withStrace } from './power-cut-scenarios.js';

/** @typedef {import('./power-cut-scenarios.js').Run} Run */
/** @typedef {import('./power-cut-scenarios.js').RunEvent} RunEvent */
/** @typedef {import('./power-cut-scenarios.js').Scenario} Scenario */
/** @typedef {import('./power-cut-scenarios.js').ScenarioName} ScenarioName */
/**
 * The number of images, and the faults found.
 * @typedef {{ checked: number, found: string[] }} Result
 */

/**
 * A kind of sync: in which scenario it is ignored, of which files and folders, and whether before or after the server is
 * ready. Some syncs cover each other, so a control ignores them together: SQLite syncs a copy at the end of VACUUM INTO,
 * before the command does. And each connection syncs the folder of the store with its first commit, so the start's own
 * sync of the folder matters only until then.
 * @type {readonly [name: string, scenario: ScenarioName, files: RegExp, when?: 'starting' | 'ready'][]}
 */
const controls = [
  ['log, by commits', 'two threads', /^store\.db-wal$/, 'ready'],
  ['log, by commits', 'library', /^store\.db-wal$/, 'ready'],
  ['log, by commits', 'transactions', /^store\.db-wal$/, 'ready'],
  ['database, by the start', 'killed store', /^store\.db$/, 'starting'],
  ['database, by the start after a kill', 'one thread', /^store\.db$/, 'starting'],
  ['database, by the start', 'stopped store', /^store\.db$/, 'starting'],
  ['database, by checkpoints', 'two threads', /^store\.db$/, 'ready'],
  ['folder of the store, by the start', 'stopped store', /^data$/, 'starting'],
  ['parents of new folders', 'one thread', /^(disk|srv)$/, 'starting'],
  ['copy, by backup', 'library', /\.partial$/],
  ['folder of the copy, by backup', 'one thread', /^backups$/],
];

/** The maximum number of repetitions of images that must show a fault. */
const mostRepetitions = 5;
/** The number of images of each scenario that a server opens: a start takes long. */
const servedImages = 4;

const program = new Command('npm run prove:power-cut --')
  .description(
    `Runs real servers, clients and commands under strace, in several scenarios. Then simulates a power failure at many points
of each run: of the data that was not synced, all, none or a random part (down to single sectors) reaches the disk, or
only the names of files do. Each resulting disk, called an image, must open, and hold an intact store with the effect of
every acknowledged request and of no other, except those on their way. The same holds for access tokens and their
revocation. A backup that has its name must be complete. Some images of each scenario are also opened by a server with
WORKERS=2, whose lists are compared.

  one thread     a first start; the server is killed twice during a sync, and started again; the third time, commands
                 create and revoke tokens, back up and migrate the store while clients create and delete plants
  two threads    the same with WORKERS=2
  library        the same with examples/library, whose books and loans clients create, read, replace (PUT), change
                 (PATCH), renew and delete; before the third start, "migrate" closes the store of the killed server
  transactions   the same, where each write also changes a copy of its document in one transaction; both must be equal
  stopped store  an operator copies the file of a stopped server into place and does not sync it; what it holds counts
                 as acknowledged once the server is ready
  killed store   the same with the files of a killed server: store.db and store.db-wal
  restore        "restore" of a backup, over a store with the log of a killed server, beside a program that reads it,
                 over a damaged store, and where there is none: cut after each call, there is the old store or the
                 backup, once it is done the backup, and never a token that was revoked

Each control ignores one kind of sync in the replay. Then at least one image must have lost data: otherwise the proof
would not notice that the sync is missing.

The replay must end with the same files as the real run, byte for byte. A call that changes files and is not replayed
ends the proof.

Linux only; needs strace, and Node.js 22.12. Run "npm run build && npm run build:services" first.`,
  )
  .option(
    '--images <N>',
    'of each scenario, about; a control takes a quarter; some thousands for a run by hand',
    Number,
    80,
  )
  .option('--requests <N>', 'of the clients of each server', Number, 800)
  .parse();
/** @type {{ images: number, requests: number }} */
const { images, requests } = program.opts();
if (!(images >= 60 && requests >= 800))
  program.error('The controls need at least 60 images and 800 requests.');
/** The number of images that a control makes at a time. */
const few = Math.ceil(images / 4);

await withStrace(prove);

async function prove() {
  const folder = mkdtempSync(join(tmpdir(), 'plant-store-'));
  try {
    const left = Object.entries(await makeScenarios(folder));
    const proveNext = async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) await proveScenario(...next);
    };
    // Mostly waits for other processes, so two at a time keep two processors busy.
    await Promise.all([proveNext(), proveNext()]);
    await proveRestores(report);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Proves that a scenario loses nothing, and that its controls do. @param {string} name @param {Scenario} scenario */
async function proveScenario(name, scenario) {
  const run = await record(scenario, requests);
  const { checked, found } = await cutPower(run, images);
  report(name, checked, found);
  for (const [what, , files, when] of controls.filter(([, of]) => of === name)) {
    const ignores = (/** @type {RunEvent} */ { kind, path, starting }) =>
      kind === 'sync' &&
      files.test(basename(path)) &&
      (when === undefined || starting === (when === 'starting'));
    const { checked, found } = await cutUntil(({ found }) => found.length > 0, run, few, ignores);
    report(`control: ${name}, without the sync of the ${what}`, checked, found, true);
  }
}

/**
 * Prints what images have shown.
 * @param {string} name
 * @param {number} checked
 * @param {string[]} found
 * @param {boolean} [isControl] - Whether some must have lost data; otherwise none may.
 */
function report(name, checked, found, isControl = false) {
  console.log(`${name}: ${found.length} of ${checked} images have lost data`);
  if (isControl && found.length === 0) fail(`${name}: nothing was lost`);
  if (!isControl) for (const fault of found.slice(0, 5)) fail(`${name}: ${fault}`);
}

/** @param {string} why */
function fail(why) {
  console.error(`FAILED: ${why}`);
  process.exitCode = 1;
}

/**
 * Cuts the power until the images show what they must, or many have not: which of them do is chance.
 * @param {(result: Result) => boolean} isEnough
 * @param {Parameters<typeof cutPower>} cut
 */
async function cutUntil(isEnough, ...cut) {
  /** @type {Result} */
  const all = { checked: 0, found: [] };
  for (let i = 0; i < mostRepetitions && (i === 0 || !isEnough(all)); i++) {
    const { checked, found } = await cutPower(...cut);
    all.checked += checked;
    all.found.push(...found);
  }
  return all;
}

/**
 * Simulates power failures at many points of a run, and checks the resulting images.
 * @param {Run} run
 * @param {number} count - The number of images to check.
 * @param {(event: RunEvent) => boolean} [ignores] - Whether a sync has no effect.
 * @returns {Promise<Result>}
 */
async function cutPower(run, count, ignores) {
  const { disk, events } = run;
  const replayed = new ReplayedDisk();
  const ledger = new Ledger(run.service);
  /** @type {string[]} */
  const found = [];
  // A disk that keeps everything cannot show that a sync is missing.
  /** @type {import('../lib/replayed-disk.js').Left[]} */
  const kept = ignores === undefined ? ['none', 'some', 'names', 'all'] : ['none', 'some'];
  const cuts = cutPoints(run, Math.ceil(count / kept.length), ignores);
  const every = ignores === undefined ? Math.ceil(cuts.size / servedImages) : Infinity;
  let cut = 0;
  for (const [index, event] of events.entries()) {
    if (event.entries !== undefined) for (const entry of event.entries) ledger.add(entry);
    else if (ignores?.(event) !== true) replayed.apply(event);
    if (!cuts.has(index)) continue;
    cut++;
    for (const [kind, left] of kept.entries()) {
      // One of each kind in turn.
      const isServed = cut % every === 0 && (cut / every) % kept.length === kind;
      const fault = await check(replayed.image(left), disk, ledger, isServed);
      if (fault !== undefined)
        found.push(
          `power failure after call ${index} of ${events.length}, unsynced data kept: ${left}: ${fault}`,
        );
    }
  }
  return { checked: kept.length * cuts.size, found };
}

/**
 * Chooses the events after which the power is cut. Most are at an acknowledgment that a sync concerns: in a control, the
 * first two after an ignored sync, when later syncs have not covered it; otherwise that of a command, or one of the
 * first two after a server became ready. The others are spread over the run.
 * @param {Run} run
 * @param {number} count
 * @param {((event: RunEvent) => boolean) | undefined} ignores
 */
function cutPoints({ events, first }, count, ignores) {
  let fresh = 0;
  const near = events.flatMap((event, i) => {
    if (ignores?.(event)) fresh = 2;
    const done = event.entries?.filter(isDone) ?? [];
    if (done.length === 0) return [];
    if (ignores === undefined && done.some(({ act }) => act === 'serve')) fresh = 3;
    const isCommand = done.some((entry) => entry.act !== 'end' || entry.key.startsWith('tokens/'));
    return fresh-- > 0 || (ignores === undefined && isCommand) ? [i] : [];
  });
  /** @type {Set<number>} */
  const cuts = new Set();
  while (near.length > 0 && cuts.size < (count * 2) / 3) {
    cuts.add(near.splice(randomInt(near.length), 1)[0] ?? 0);
  }
  // What a checkpoint did not sync is lost only once the log starts again, late in the run.
  cuts.add(events.findLastIndex(({ entries }) => entries !== undefined));
  const part = (events.length - first) / (count - cuts.size);
  for (let from = first; from < events.length; from += part) {
    cuts.add(Math.min(Math.floor(from + Math.random() * part), events.length - 1));
  }
  return cuts;
}

/**
 * Checks what a power failure left.
 * @param {import('../lib/replayed-disk.js').Image} image
 * @param {string} disk - The folder that the image shows.
 * @param {Ledger} ledger
 * @param {boolean} served - Whether a server opens it, too.
 * @returns {Promise<string | undefined>} The fault, if any.
 */
async function check(image, disk, ledger, served) {
  const root = mkdtempSync(join(tmpdir(), 'plant-store-image-'));
  try {
    writeImage(image, disk, root);
    return await ledger.check(root, served);
  } finally {
    rmSync(root, { recursive: true });
  }
}
