// Tests for the test of the test runner, which selects one of them by its name.
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import t from 'tap';

/** Starts a process that would outlive this one, in a session of its own, and prints its id. */
function startOther() {
  const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1_000)'], {
    detached: true,
    stdio: 'ignore',
  });
  other.unref();
  writeFileSync(String(process.env['PID_FILE']), String(other.pid));
}

/** Never resolves, and keeps the process running. */
const never = () => new Promise(() => setInterval(() => undefined, 1_000));

t.test('leaves a process', async () => {
  startOther();
});
t.test('fails (here)', async (t) => {
  t.equal(1, 2, 'numbers');
});
t.test('hangs', async (t) => {
  startOther();
  await t.test('inside', never);
});
t.test('loops', async () => {
  startOther();
  for (;;);
});
t.test('is killed', async () => {
  startOther();
  process.kill(process.pid, 'SIGKILL');
  await never();
});
