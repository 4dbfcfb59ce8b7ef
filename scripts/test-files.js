// Runs test files, a few at a time, each in a process of its own. A file is ended when it prints nothing for long; how long
// it takes does not matter, since the machine may be slow.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readProcess } from './lib/processes.js';

/**
 * A run.
 * @typedef {object} Run
 * @property {number} jobs - How many files run simultaneously.
 * @property {string[]} nodeOptions
 * @property {Record<string, string>} env - Variables, in addition to those of this process.
 * @property {string} results - The folder for the files' output.
 * @property {number} patience - For how long a file may print nothing, in seconds.
 * @property {import('./test-report.js').Report} report
 */

/** A test file. @typedef {{ name: string, script: string }} File - The name to report, and what Node.js runs. */

/** The processor time of all that has ended and is reported, in seconds. */
let counted = 0;
/** The process groups of the files that run. @type {Set<number>} */
const running = new Set();
process.once('exit', () => {
  for (const group of running) endGroup(group);
});

/**
 * Runs test files.
 * @param {readonly File[]} files
 * @param {Run} run
 */
export async function runFiles(files, run) {
  const waiting = [...files];
  counted = endedSeconds();
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await runFile(next, run);
  };
  await Promise.all(Array.from({ length: run.jobs }, work));
}

/** Runs a file, and reports its end when its process has ended. @param {File} file @param {Run} run */
async function runFile({ name, script }, { nodeOptions, env, results, patience, report }) {
  const child = spawn(process.execPath, [...nodeOptions, script], {
    // Without a time limit of tap's own.
    env: { ...process.env, TAP_TIMEOUT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    // Leads a group of all that it starts. Ctrl+C is for the runner alone.
    detached: true,
  });
  const group = Number(child.pid);
  running.add(group);
  let fault = '';
  const stalled = setTimeout(() => {
    fault = `It printed nothing for ${patience} s.`;
    child.kill('SIGKILL');
  }, patience * 1_000);
  const output = join(results, `${name}.tap`);
  mkdirSync(dirname(output), { recursive: true });
  child.stdout.on('data', () => stalled.refresh()).pipe(createWriteStream(output));
  report.begin(name, child.stdout);
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stalled.refresh();
    errors += text;
  });
  const closed = once(child, 'close');
  const [status, signal] = await once(child, 'exit');
  endGroup(group);
  running.delete(group);
  // Of this child and its children, since no other has ended meanwhile.
  const seconds = endedSeconds() - counted;
  counted += seconds;
  clearTimeout(stalled);
  await closed;
  if (errors !== '') report.print(`standard error of ${name}:\n${errors}\n`);
  report.end(name, signal ?? status, fault, seconds);
}

/** Ends what is left of a group of processes. @param {number} group */
function endGroup(group) {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // Nothing is left.
  }
}

/** The processor time of all children of this process that have ended, and of theirs, in seconds; NaN but on Linux. */
function endedSeconds() {
  const [, times = ''] = readProcess(process.pid, 'stat').split(') ');
  const [user, system] = times.split(' ').slice(13, 15);
  return (Number(user) + Number(system)) / 100;
}
