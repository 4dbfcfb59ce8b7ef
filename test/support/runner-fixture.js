// Tests for the test of the test runner, which selects one of them by its name.
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import t from 'tap';

/** Starts a process that would outlive this one, and writes down its id. */
function startOther() {
  const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1_000)'], { stdio: 'ignore' });
  other.unref();
  writeFileSync(String(process.env['PID_FILE']), String(other.pid));
}

t.test('leaves a process', async () => {
  startOther();
});
t.test('fails (here)', async (t) => {
  t.equal(1, 2, 'numbers');
});
t.test('loops', async () => {
  startOther();
  for (;;);
});
