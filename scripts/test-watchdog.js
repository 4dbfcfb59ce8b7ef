// Ends the processes of a test run and removes its folder when the runner has ended, however it has ended: then the pipe
// from it closes. Arguments: the run's mark, and the folder.
import { rmSync } from 'node:fs';
import { endProcesses } from './test-processes.js';

const [mark = '', folder = ''] = process.argv.slice(2);
process.stdin.resume().once('close', async () => {
  const left = await endProcesses(mark);
  for (const { pid, command } of left) console.error(`Could not be ended: process ${pid}, ${command}`);
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});
