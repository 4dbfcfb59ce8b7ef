// Checks with strace that nothing is acknowledged before it is on disk.
import { dirname } from 'node:path';
import { Command } from 'commander';
import { edited } from '../lib/edits.js';
import { isDone } from './power-cut-ledger.js';
import { record, withStrace } from './power-cut-scenarios.js';

new Command('npm run prove:durability')
  .description(
    `Sends requests one by one to a traced server: to the Plant Store with one thread and with two, and to
examples/library, also with writes that are transactions. Then runs the commands that create and revoke tokens and back
up. After the last write to the log or to the copy, that file must be synced, and after a new name its folder, before
the response or the message is sent. As a control, a build whose writer does not sync must fail.

Linux only; needs strace, and Node.js 22.12. Run "npm run build && npm run build:services" first.`,
  )
  .parse();
/** The number of requests that each server receives. */
const requests = 200;
/** Texts of responses and messages of success. */
const acknowledgments = ['HTTP/1.1 20', '"token": "', 'is revoked.', 'Copied '];
/** @type {Record<string, import('./power-cut-scenarios.js').Scenario>} */
const scenarios = {
  'one thread': { service: 'plants', stages: [{ workers: 1, clients: 1 }] },
  'two threads': { service: 'plants', stages: [{ workers: 2, clients: 1 }] },
  'two of the library': { service: 'library', stages: [{ workers: 2, clients: 1 }] },
  'two, in transactions': { service: 'transactions', stages: [{ workers: 2, clients: 1 }] },
  commands: { service: 'plants', stages: [{ workers: 1, clients: 0, commands: true }] },
};

/** With this edit, the writer does not sync. */
const withoutSync = edited(
  {
    file: 'storage/sqlite/committer.js',
    text: 'PRAGMA synchronous = FULL',
    by: 'PRAGMA synchronous = OFF',
  },
  { file: 'storage/sqlite/committer.js', text: ' || synchronous !== 2', by: '' },
);

await withStrace(async () => {
  const found = [];
  for (const [name, scenario] of Object.entries(scenarios)) {
    const { writes, proven } = await observe(scenario);
    found.push(`${proven} of ${writes} (${name})`);
    if (proven !== writes || writes === 0) process.exitCode = 1;
  }
  console.log(`on disk before they were acknowledged: ${found.join(', ')}`);
  const stages = [{ workers: 1, clients: 1, nodeOptions: withoutSync }];
  const { writes, proven } = await observe({ service: 'library', stages });
  console.log(`control: ${proven} of ${writes} if the writer does not sync`);
  // A checkpoint syncs all the same.
  if (writes === 0 || proven > writes / 10) process.exitCode = 1;
  if (process.exitCode) console.error('FAILED: durability is not proved.');
});

/** Runs a scenario, and counts its writes. @param {import('./power-cut-scenarios.js').Scenario} scenario */
async function observe(scenario) {
  const { events } = await record(scenario, requests, acknowledgments);
  return count(events);
}

/**
 * Counts the writes that were acknowledged, and those before whose acknowledgment something was written since the
 * previous one, and all of it then synced.
 * @param {readonly import('./power-cut-scenarios.js').RunEvent[]} events
 */
function count(events) {
  let [writes, proven] = [0, 0];
  let [isChanged, isProven, isRead] = [false, false, false];
  /** What is not synced, and when it was changed last. @type {Map<string, number>} */
  const unsynced = new Map();
  for (const event of events) {
    const { kind, path, index, entries = [] } = event;
    // The name of a complete copy.
    const linked = kind === 'link' && event.from.endsWith('.partial') ? dirname(path) : undefined;
    const changed = kind === 'write' && /(-wal|\.partial)$/.test(path) ? path : linked;
    if (changed !== undefined) {
      isChanged = true;
      unsynced.set(changed, index);
    } else if (kind === 'sync' && event.began > (unsynced.get(path) ?? Infinity)) unsynced.delete(path);
    else if (kind === 'message') {
      isProven = isChanged && unsynced.size === 0;
      isChanged = false;
      unsynced.clear();
    }
    for (const entry of entries) {
      if (entry.act === 'begin') isRead = entry.operation.act === 'read';
      const isWrite =
        entry.act === 'end' ? !isRead && /^(20|success)/.test(entry.outcome ?? '') : entry.act === 'backup';
      if (!isWrite || !isDone(entry)) continue;
      writes++;
      if (isProven) proven++;
      isProven = false;
    }
  }
  return { writes, proven };
}
