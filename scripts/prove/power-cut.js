// Checks that a power failure loses no acknowledged write, by replaying a run's system calls up to simulated power failures.
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { basename } from 'node:path';
import { Command } from 'commander';
import { ReplayedDisk, withImage } from '../lib/replayed-disk.js';
import { isDone, Ledger } from './power-cut-ledger.js';
import { record, scenarios } from './power-cut-scenarios.js';

/** @typedef {import('./power-cut-scenarios.js').Run} Run */
/** @typedef {import('./power-cut-scenarios.js').RunEvent} RunEvent */
/** @typedef {import('./power-cut-scenarios.js').Scenario} Scenario */
/** @typedef {import('./power-cut-scenarios.js').ScenarioName} ScenarioName */
/**
 * A kind of sync: in which scenario it is ignored, of which files and folders, and in which phase. Some syncs cover each other, so a control ignores them together: SQLite syncs a copy at the end of VACUUM INTO,
 * before the command does. And each connection syncs the folder of the store with its first commit, so the start's own
 * sync of the folder matters only until then.
 * @type {readonly [name: string, scenario: ScenarioName, files: RegExp, when?: import('./power-cut-scenarios.js').Phase][]}
 */
const controls = [
  ['log, by commits', 'each write, one thread', /^store\.db-wal$/, 'ready'],
  ['log, by commits', 'each transaction, two threads', /^store\.db-wal$/, 'ready'],
  ['log, by commits', 'two threads', /^store\.db-wal$/, 'ready'],
  ['log, by commits', 'library', /^store\.db-wal$/, 'ready'],
  ['log, by commits', 'transactions', /^store\.db-wal$/, 'ready'],
  ['database, by checkpoints', 'two threads', /^store\.db$/, 'ready'],
  ['parents of new folders', 'one thread', /^(disk|srv)$/, 'starting'],
  ['copy, by backup', 'library', /\.partial$/],
  ['folder of the copy, by backup', 'one thread', /^backups$/],
  ['log, by restore', 'restore beside a reader', /^store\.db-wal$/, 'restoring'],
  ['copy, by restore', 'restore over a damaged store', /\.partial$/, 'restoring'],
  ['folder of the store, by restore', 'restore over a damaged store', /^data$/, 'restoring'],
];

/** The maximum number of repetitions of images that must show a fault. */
const mostRepetitions = 5;

const program = new Command('npm run prove:power-cut --')
  .description(
    `Runs real servers, clients and commands under strace, in several scenarios. Then simulates a power failure at many points
of each run: of the data that was not synced, all, none or a random part (down to single sectors) reaches the disk, or
only the names of files do. Each resulting disk, called an image, must open, and hold an intact store with the effect of
every acknowledged request and of no other, except those on their way. The same holds for access tokens and their
revocation. A backup that has its name must be complete.

  each write     one client, with one thread, and with two and transactions: cut after each response, so that nothing is
                 acknowledged before it is on disk
  one thread     the server is killed twice during a sync, and started again; the third time, commands create and revoke a
                 token and back up the store while clients create and delete plants
  two threads    the same with WORKERS=2
  library        the same with all operations of examples/library
  transactions   the same, where each write also changes a copy of its document in one transaction; both must be equal
  restore        over a killed server, beside a reader and over a damaged store: cut after each call, there is the old
                 store or the backup, once it is done the backup, and never a token that was revoked

Each control ignores one kind of sync in the replay. Then at least one image must have lost data. The replay must end with
the same files as the real run, byte for byte, so that no call that changes files is overlooked.

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

if (spawnSync('strace', ['-V']).error === undefined) await prove();
else {
  console.error('SKIPPED: this needs strace, which is not installed.');
  process.exitCode = process.env['CI'] ? 1 : 0;
}

async function prove() {
  const left = Object.entries(scenarios);
  const proveNext = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await proveScenario(...next);
  };
  // Mostly waits for other processes, so two at a time keep two processors busy.
  await Promise.all([proveNext(), proveNext()]);
}

/** Proves that a scenario loses nothing, and that its controls do. @param {string} name @param {Scenario} scenario */
async function proveScenario(name, scenario) {
  const run = await record(scenario, requests);
  const { checked, found } = await cutPower(run, images);
  report(name, checked, found);
  for (const [what, , files, when] of controls.filter(([, of]) => of === name)) {
    const ignores = (/** @type {RunEvent} */ { kind, path, phase }) =>
      kind === 'sync' && files.test(basename(path)) && (when === undefined || phase === when);
    const { checked, found } = await cutUntilLoss(run, ignores);
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
  if (found.length > 0 === isControl) return;
  const why = isControl ? ['nothing was lost'] : found.slice(0, 5);
  console.error(why.map((fault) => `FAILED: ${name}: ${fault}`).join('\n'));
  process.exitCode = 1;
}

/**
 * Cuts the power until an image has lost data, or many have not: which of them do is chance.
 * @param {Run} run
 * @param {(event: RunEvent) => boolean} ignores - Whether a sync has no effect.
 */
async function cutUntilLoss(run, ignores) {
  let checked = 0;
  for (let i = 1; ; i++) {
    const result = await cutPower(run, few, ignores);
    checked += result.checked;
    if (result.found.length > 0 || i === mostRepetitions) return { ...result, checked };
  }
}

/**
 * Simulates power failures at many points of a run, and checks the resulting images.
 * @param {Run} run
 * @param {number} count - The number of images to check.
 * @param {(event: RunEvent) => boolean} [ignores] - Whether a sync has no effect.
 */
async function cutPower(run, count, ignores) {
  const { disk, events } = run;
  const replayed = new ReplayedDisk();
  const ledger = new Ledger(run.service);
  /** @type {string[]} */
  const found = [];
  // A disk that keeps everything cannot show that a sync is missing.
  /** @type {import('../lib/replayed-disk.js').Left[]} */
  const kinds = ignores === undefined ? ['none', 'some', 'names', 'all'] : ['none', 'some'];
  const restoring = events.findIndex(({ phase }) => phase === 'restoring');
  const kept = run.each ? kinds.slice(0, 1) : kinds;
  const cuts = run.each
    ? new Set([...events.keys()].filter((i) => events[i]?.entry?.act === 'end'))
    : restoring === -1
      ? cutPoints(run, Math.ceil(count / kept.length), ignores)
      : new Set([...events.keys()].slice(restoring));
  let checked = 0;
  for (const [index, event] of events.entries()) {
    if (event.entry !== undefined) ledger.add(event.entry);
    else if (ignores?.(event) !== true) replayed.apply(event);
    if (!cuts.has(index)) continue;
    for (const left of kept) {
      checked++;
      const fault = await withImage(replayed.image(left), disk, (root) => ledger.check(root));
      if (fault !== undefined)
        found.push(
          `power failure after call ${index} of ${events.length}, unsynced data kept: ${left}: ${fault}`,
        );
    }
  }
  return { checked, found };
}

/**
 * Chooses the events after which the power is cut. Most are at an acknowledgment that a sync concerns: in a control, the
 * first eight after an ignored sync, when later syncs have hardly covered it; otherwise that of a command, or one of the
 * first two after a server became ready. The others are spread over the run.
 * @param {Run} run
 * @param {number} count
 * @param {((event: RunEvent) => boolean) | undefined} ignores
 */
function cutPoints({ events }, count, ignores) {
  let fresh = 0;
  const near = events.flatMap((event, i) => {
    if (ignores?.(event)) fresh = 8;
    if (event.entry === undefined || !isDone(event.entry)) return [];
    const { act } = event.entry;
    if (ignores === undefined && act === 'serve') fresh = 3;
    return fresh-- > 0 || (ignores === undefined && act !== 'end') ? [i] : [];
  });
  /** @type {Set<number>} */
  const cuts = new Set();
  while (near.length > 0 && cuts.size < (count * 2) / 3) {
    cuts.add(near.splice(randomInt(near.length), 1)[0] ?? 0);
  }
  // What a checkpoint did not sync is lost only once the log starts again, late in the run.
  cuts.add(events.findLastIndex(({ entry }) => entry !== undefined));
  const part = events.length / (count - cuts.size);
  for (let from = 0; from < events.length; from += part) {
    cuts.add(Math.min(Math.floor(from + Math.random() * part), events.length - 1));
  }
  return cuts;
}
