// Runs test files, a few at a time, each in a process of its own. A file is ended when it prints nothing for long; how long
// it takes does not matter, since the machine may be slow.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { endedSeconds, endProcesses, listMarked, marked } from './test-processes.js';

/** The minimum interval at which the report names the running files, in ms. */
const reminder = 20_000;

/** The processor time of all that has ended and is reported, in seconds. */
let counted = 0;

/**
 * A run.
 * @typedef {object} Run
 * @property {string} mark - Of its processes.
 * @property {number} jobs - How many files run simultaneously.
 * @property {string[]} nodeOptions
 * @property {Record<string, string>} env - Variables, in addition to those of this process.
 * @property {string} results - The folder for the files' output.
 * @property {number} patience - For how long a file may print nothing, in seconds.
 * @property {import('./test-report.js').Report} report
 */

/** A test file. @typedef {{ name: string, script: string }} File - The name to report, and what Node.js runs. */

/**
 * Runs test files.
 * @param {readonly File[]} files
 * @param {Run} run
 */
export async function runFiles(files, run) {
  const waiting = [...files];
  counted = endedSeconds();
  const timer = setInterval(() => run.report.remind(), reminder);
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await runFile(next, run);
  };
  await Promise.all(Array.from({ length: run.jobs }, work));
  clearInterval(timer);
}

/** Runs a file, and reports its end when it and all its processes have ended. @param {File} file @param {Run} run */
async function runFile({ name, script }, run) {
  const mark = `${run.mark}:${name}`;
  const child = spawn(process.execPath, [...run.nodeOptions, script], {
    // Without a time limit of tap's own.
    env: { ...marked(run.mark, mark), TAP_TIMEOUT: '0', ...run.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    // Ctrl+C is for the runner alone.
    detached: process.platform !== 'win32',
  });
  /** @type {string[]} */
  const faults = [];
  const stalled = setTimeout(() => {
    const processes = listMarked().filter(({ marks }) => marks.includes(mark));
    const running = processes.map(({ pid, command }) => `process ${pid}: ${command}`);
    faults.push(`It printed nothing for ${run.patience} s.`, ...running);
    child.kill('SIGKILL');
  }, run.patience * 1_000);
  const results = join(run.results, `${name}.tap`);
  mkdirSync(dirname(results), { recursive: true });
  child.stdout.on('data', () => stalled.refresh()).pipe(createWriteStream(results));
  run.report.begin(name, child.stdout);
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stalled.refresh();
    errors += text;
  });
  const closed = once(child, 'close');
  const [status, signal] = await once(child, 'exit');
  // Of this child and its children, since no other has ended meanwhile.
  const seconds = endedSeconds() - counted;
  counted += seconds;
  clearTimeout(stalled);
  await endProcesses(mark);
  await closed;
  if (errors !== '') run.report.print(`standard error of ${name}:\n${errors}\n`);
  run.report.end(name, signal ?? status, faults, seconds);
}
