// The test runner: every failure names the file, the test and the command that repeats it, a file that prints nothing
// is ended, and no process of a test outlives it, or the runner.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { runFiles } from '../../scripts/test-files.js';
import { marked } from '../../scripts/test-processes.js';
import { Report } from '../../scripts/test-report.js';
import { temporaryFolder } from '../../packages/server/test/support/engines.js';
import { skipFor } from '../../packages/server/test/support/skip.js';
import { repeatUntil } from '../../packages/server/test/support/wait.js';
import { readProcess } from '../../scripts/lib/processes.js';
import { noProc } from '../../packages/server/test/support/threads.js';

const linux = () => skipFor(noProc);

/** Waits until a process has ended; one that has not been waited for has. */
const ends = (pid: number) => repeatUntil(() => !/^State:\t[^XZ]/m.test(readProcess(pid, 'status')));
const script = fileURLToPath(new URL('../support/runner-fixture.js', import.meta.url));

/** Runs a test of the fixture. All processes have ended when it returns what the runner has printed. */
async function runFixture(t: Test, name: string, patience = 1_000) {
  const folder = await temporaryFolder(t);
  const pidFile = join(folder, 'pid');
  let printed = '';
  const report = new Report(1, (text) => (printed += text));
  await runFiles([{ name: 'test/fixture.test.ts', script }], {
    mark: randomUUID(),
    jobs: 1,
    nodeOptions: [],
    env: { TAP_GREP: `^${name}`, PID_FILE: pidFile },
    results: folder,
    patience,
    report,
  });
  const isWell = report.summarize();
  if (existsSync(pidFile)) await ends(Number(readFileSync(pidFile, 'utf8')));
  return { printed, isWell };
}

t.test('a failure is reported with its file, its test and the command that repeats it', async (t) => {
  const { printed, isWell } = await runFixture(t, 'fails');
  t.notOk(isWell);
  t.match(printed, /^not ok: test\/fixture\.test\.ts > fails \(here\) > numbers\n[^]*-2\n +\+1\n/);
  t.match(
    printed,
    `    repeat with: npm test -- test/fixture.test.ts '--grep=^fails \\(here\\)$'\nFAIL 1/1 test/fixture.test.ts (`,
  );
  t.match(printed, '\nFiles: 0 passed, 1 failed\n');
});

t.test('a process that a test leaves behind is ended', linux(), async (t) => {
  const { printed, isWell } = await runFixture(t, 'leaves');
  t.ok(isWell);
  t.match(printed, /^ok {3}1\/1 test\/fixture\.test\.ts \(/);
});

for (const { name, patience, reason } of [
  // More than the process needs to start on a slow machine.
  { name: 'hangs', patience: 5, reason: 'It printed nothing for 5 s.\n    process ' },
  { name: 'loops', patience: 5, reason: 'It printed nothing for 5 s.\n    process ' },
  { name: 'is killed', patience: 1_000, reason: 'The process ended with SIGKILL.' },
]) {
  t.test(`a test that ${name}: the report says so, and all its processes are ended`, linux(), async (t) => {
    const { printed, isWell } = await runFixture(t, name, patience);
    t.notOk(isWell);
    t.match(printed, `not ok: test/fixture.test.ts\n    ${reason}`);
    t.match(printed, '    repeat with: npm test -- test/fixture.test.ts\n');
  });
}

t.test('when the runner has gone, its processes are ended and its folder is removed', linux(), async (t) => {
  const folder = await mkdtemp(join(await temporaryFolder(t), 'run-'));
  const mark = randomUUID();
  const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1_000)'], {
    env: marked(mark),
    detached: true,
    stdio: 'ignore',
  });
  // A runner that starts the watchdog and is killed.
  const watchdog = fileURLToPath(new URL('../../scripts/test-watchdog.js', import.meta.url));
  const start = `const { spawn } = require('node:child_process');
    const stdio = ['pipe', 'ignore', 'ignore'];
    spawn(process.execPath, ${JSON.stringify([watchdog, mark, folder])}, { stdio, detached: true });
    console.log('started');`;
  const runner = spawn(process.execPath, ['-e', start], { stdio: ['ignore', 'pipe', 'ignore'] });
  await once(runner.stdout, 'data');
  const ended = once(other, 'exit');
  runner.kill('SIGKILL');
  t.strictSame(await ended, [null, 'SIGKILL']);
  await repeatUntil(() => !existsSync(folder));
});
