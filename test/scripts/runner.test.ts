// The test runner: every failure names the file, the test and the command that repeats it, a file that prints nothing
// is ended, and no process of a test outlives it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { runFiles } from '../../scripts/test-files.js';
import { temporaryFolder } from '../../packages/server/test/support/engines.js';
import { skipFor } from '../../packages/server/test/support/skip.js';
import { repeatUntil } from '../../packages/server/test/support/wait.js';
import { readProcess } from '../../scripts/lib/processes.js';
import { noProc } from '../../packages/server/test/support/threads.js';

const linux = () => skipFor(noProc);
const script = fileURLToPath(new URL('../support/runner-fixture.js', import.meta.url));

/** Runs a test of the fixture. @returns What the runner has printed, and the id of the process that the test has started. */
async function runFixture(t: Test, name: string, patience = 1_000) {
  const folder = await temporaryFolder(t);
  const pidFile = join(folder, 'pid');
  let printed = '';
  const print = (text: string) => (printed += `${text}\n`);
  const env = { TAP_GREP: `^${name}`, PID_FILE: pidFile };
  const run = { jobs: 1, nodeOptions: [], env, patience, print };
  const isWell = await runFiles([{ name: 'test/fixture.test.ts', script }], run);
  return { isWell, printed, pid: () => Number(readFileSync(pidFile, 'utf8')) };
}

/** Waits until a process has ended; one that has not been waited for has. */
const ends = (pid: number) => repeatUntil(() => !/^State:\t[^XZ]/m.test(readProcess(pid, 'status')));

t.test('a failure is reported with its file, its test and the command that repeats it', async (t) => {
  const { printed, isWell } = await runFixture(t, 'fails');
  t.notOk(isWell);
  t.match(printed, /^not ok: test\/fixture\.test\.ts > fails \(here\) > numbers\n[^]*-2\n +\+1\n/);
  t.match(
    printed,
    `    repeat with: npm test -- test/fixture.test.ts '--grep=^fails \\(here\\)$'\nFAIL test/fixture.test.ts (`,
  );
  t.match(printed, '\nFiles: 0 passed, 1 failed test/fixture.test.ts\n');
});

t.test('a process that a test leaves behind is ended', linux(), async (t) => {
  const { printed, isWell, pid } = await runFixture(t, 'leaves');
  t.ok(isWell);
  t.match(printed, /^ok {3}test\/fixture\.test\.ts \(/);
  await ends(pid());
});

t.test(
  'a test that does not end: the report says so, and all its processes are ended',
  linux(),
  async (t) => {
    // More than the process needs to start on a slow machine.
    const { printed, isWell, pid } = await runFixture(t, 'loops', 5);
    t.notOk(isWell);
    t.match(printed, 'not ok: test/fixture.test.ts\n    It printed nothing for 5 s. It ended with SIGKILL.');
    t.match(printed, '    repeat with: npm test -- test/fixture.test.ts\n');
    await ends(pid());
  },
);
