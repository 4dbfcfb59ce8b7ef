// Runs test files, a few at a time, each in a process of its own. A file is ended if it makes no progress; how long it takes
// does not matter, since the machine may be slow.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { timesOf } from './lib/processes.js';
import { endProcesses, listMarked, marked } from './test-processes.js';

/**
 * When a file is ended. Progress is output, or that its processes run, or wait for a processor, for a twentieth of the
 * time; where the system does not tell (all but Linux), output alone.
 * @typedef {object} Limits
 * @property {number} interval - How often the processes are looked at, in seconds.
 * @property {number} stall - For how long there may be no progress, in seconds.
 * @property {number} processor - How much processor time all its processes may use, in seconds: an endless loop uses more.
 */

/** @type {Limits} */
export const defaultLimits = { interval: 5, stall: 300, processor: 1_800 };

/** Of the time, how much the processes must want to run. */
const share = 1 / 20;

/**
 * A run.
 * @typedef {object} Run
 * @property {string} mark - Of its processes.
 * @property {number} jobs - How many files run simultaneously.
 * @property {string[]} nodeOptions
 * @property {Record<string, string>} env - Variables, in addition to those of this process.
 * @property {string} results - The folder for the files' output.
 * @property {Limits} limits
 * @property {import('./test-report.js').Report} report
 */

/**
 * Runs test files.
 * @param {readonly { name: string, script: string }[]} files - The names to report, and what Node.js runs.
 * @param {Run} run
 */
export async function runFiles(files, run) {
  const waiting = [...files];
  /** @type {Set<TestFile>} */
  const running = new Set();
  const timer = setInterval(() => {
    const processes = listMarked();
    for (const file of running) file.look(processes);
    run.report.remind();
  }, run.limits.interval * 1_000);
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const file = new TestFile(next, run);
      running.add(file);
      await file.ended();
      running.delete(file);
    }
  };
  await Promise.all(Array.from({ length: run.jobs }, work));
  clearInterval(timer);
}

/** A test file that runs. */
class TestFile {
  #name;
  #mark;
  #run;
  #child;
  #errors = '';
  /** @type {string[]} */
  #faults = [];
  /** Whether there was output since the last look. */
  #spoke = false;
  /** What its processes have used so far, by id. @type {Map<number, { ran: number, ready: number }>} */
  #times = new Map();
  /** How much processor time they have used together, in seconds. */
  #ran = 0;
  /** For how long there was no progress, and for how long its processes wanted to run meanwhile, in seconds. */
  #still = 0;
  #ready = 0;

  /** @param {{ name: string, script: string }} file @param {Run} run */
  constructor({ name, script }, run) {
    this.#name = name;
    this.#mark = `${run.mark}:${name}`;
    this.#run = run;
    this.#child = spawn(process.execPath, [...run.nodeOptions, script], {
      // Without a time limit of tap's own.
      env: { ...marked(run.mark, this.#mark), TAP_TIMEOUT: '0', ...run.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      // Ctrl+C is for the runner alone.
      detached: process.platform !== 'win32',
    });
    const results = join(run.results, `${name}.tap`);
    mkdirSync(dirname(results), { recursive: true });
    const { stdout, stderr } = this.#child;
    stdout.pipe(createWriteStream(results));
    run.report.begin(name, stdout);
    stdout.on('data', () => (this.#spoke = true));
    stderr.setEncoding('utf8').on('data', (text) => {
      this.#spoke = true;
      this.#errors += text;
    });
  }

  /** Reports the end of the file when it and all its processes have ended. */
  async ended() {
    const closed = once(this.#child, 'close');
    const [status, signal] = await once(this.#child, 'exit');
    await endProcesses(this.#mark);
    await closed;
    if (this.#errors !== '') this.#run.report.print(`standard error of ${this.#name}:\n${this.#errors}\n`);
    this.#run.report.end(this.#name, signal ?? status, this.#faults);
  }

  /**
   * Ends the file if it makes no progress.
   * @param {readonly import('./test-processes.js').Process[]} all - The processes of the run.
   */
  look(all) {
    const processes = all.filter(({ marks }) => marks.includes(this.#mark));
    const { interval, stall, processor } = this.#run.limits;
    for (const { pid } of processes) {
      const before = this.#times.get(pid) ?? { ran: 0, ready: 0 };
      const times = timesOf(pid);
      this.#times.set(pid, times);
      // Threads that have ended are no longer counted.
      this.#ran += Math.max(0, times.ran - before.ran);
      this.#ready += Math.max(0, times.ready - before.ready);
    }
    this.#still += interval;
    if (this.#spoke || this.#ready > share * stall) this.#still = this.#ready = 0;
    this.#spoke = false;
    if (this.#still >= stall) {
      this.#end(`No progress for ${stall} s: no output, and its processes hardly wanted to run.`, processes);
    } else if (this.#ran >= processor) {
      this.#end(`Its processes used ${processor} s of processor time, as an endless loop does.`, processes);
    }
  }

  /** @param {string} fault @param {readonly import('./test-processes.js').Process[]} processes */
  #end(fault, processes) {
    if (this.#faults.length > 0) return;
    this.#faults.push(fault, ...processes.map(({ pid, command }) => `process ${pid}: ${command}`));
    this.#child.kill('SIGKILL');
  }
}
