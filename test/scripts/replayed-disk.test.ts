// Tests that the replay of prove:power-cut overlooks no change of a file.
// cspell:ignore fallocate
import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { readTrace, traceOptions } from '../../scripts/lib/file-trace.js';
import { ReplayedDisk } from '../../scripts/lib/replayed-disk.js';
import { temporaryFolder } from '../../packages/server/test/support/engines.js';
import { lacks, skipFor } from '../../packages/server/test/support/skip.js';

const strace = () => skipFor(lacks('strace'));

t.test('the replay has every change of a folder', strace(), async (t) => {
  const folder = await temporaryFolder(t);
  const { disk, events } = await replay(t, folder, [
    'sh',
    '-c',
    `mkdir ${folder}/made; truncate -s 5 ${folder}/sized`,
  ]);
  t.ok(events > 0);
  disk.compare(folder);
  await writeFile(join(folder, 'unnoticed'), '');
  t.throws(() => {
    disk.compare(folder);
  }, /unnoticed differs/);
});

t.test('the replay finds a change that it cannot repeat', strace(), async (t) => {
  const commands = [
    ['mv', 'file', 'moved'],
    ['ln', '-s', 'file', 'link'],
    ['cp', 'file', 'copy'],
    ['fallocate', '-l', '10', 'file'],
  ];
  for (const command of commands) {
    const folder = join(await temporaryFolder(t), 'disk');
    await mkdir(folder);
    await writeFile(join(folder, 'file'), 'content');
    const compared = replay(t, folder, command).then(({ disk }) => {
      disk.compare(folder);
    });
    await t.rejects(compared, /differs|never created/, command.join(' '));
  }
});

/** Replays the changes that a command makes in a folder. Also returns their number. */
async function replay(t: Test, folder: string, command: readonly string[]) {
  const trace = join(await temporaryFolder(t), 'trace');
  const { status } = spawnSync('strace', [...traceOptions, '-o', trace, ...command], { cwd: folder });
  if (status !== 0) throw new Error(`${command.join(' ')} failed`);
  const disk = new ReplayedDisk();
  let events = 0;
  for await (const event of readTrace(trace, folder)) {
    disk.apply(event);
    events++;
  }
  return { disk, events };
}
