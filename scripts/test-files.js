// Runs test files, a few at a time, each in a process of its own, and reports one line for each file that has ended, all
// failures with the command that repeats each, and the reasons for skipped tests. A file is ended when it prints nothing for
// long; how long it takes does not matter, since the machine may be slow.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Parser } from 'tap-parser';
import { stringify } from 'yaml';

/**
 * A run.
 * @typedef {object} Run
 * @property {number} jobs - How many files run simultaneously.
 * @property {string[]} nodeOptions
 * @property {Record<string, string>} env - Variables, in addition to those of this process.
 * @property {number} patience - For how long a file may print nothing, in seconds.
 * @property {(text: string) => void} [print] - Prints lines; to standard output by default.
 */

/** A test file. @typedef {{ name: string, script: string }} File - The name to report, and what Node.js runs. */

/** The process groups of the files that run. @type {Set<number>} */
const running = new Set();
process.once('exit', () => {
  for (const group of running) endGroup(group);
});

/** @param {string} text */
const indent = (text) => text.trimEnd().replace(/^/gm, '    ');

/**
 * Runs test files.
 * @param {readonly File[]} files
 * @param {Run} run
 * @returns {Promise<boolean>} Whether all is well.
 */
export async function runFiles(files, run) {
  const { print = console.log } = run;
  const waiting = [...files];
  /** @type {Set<string>} */
  const failed = new Set();
  /** The files of skipped tests, by reason. @type {Map<string, Set<string>>} */
  const skipped = new Map();
  /** The numbers of assertions, by result. @type {Record<string, number>} */
  const totals = { total: 0, pass: 0 };
  /** @param {string} path - The names of the file, of the test and its parents, from the outside in. @param {string} reason */
  const fail = (path, reason) => {
    // Of tests that are nested, the outermost can be run alone.
    const [file = '', test] = path.split(' > ');
    failed.add(file);
    const pattern = test?.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll("'", "'\\''");
    const command = `npm test -- ${file}${pattern === undefined ? '' : ` '--grep=^${pattern}$'`}`;
    print(`not ok: ${path}\n${indent(`${reason.trimEnd()}\nrepeat with: ${command}`)}`);
  };
  /** Reads the output of a file. @param {string} name */
  const parserOf = (name) => {
    const parser = new Parser({ name });
    // Of tests in a test, without the result of the outer one.
    parser.on('result', ({ ok, fullname, skip, diag }) => {
      if (skip) skipped.set(String(skip), (skipped.get(String(skip)) ?? new Set()).add(name));
      else if (!ok) fail(fullname, diag ? stringify(diag, { lineWidth: 0 }) : '');
    });
    parser.on('comment', (comment) => {
      // The numbers of all assertions of the file.
      if (!comment.startsWith('# {')) return;
      for (const [, kind = '', number] of comment.matchAll(/(\w+): (\d+)/g))
        totals[kind] = (totals[kind] ?? 0) + Number(number);
    });
    return parser;
  };
  const work = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const { name } = file;
      const begin = Date.now();
      const parser = parserOf(name);
      const end = await runFile(file, run, parser);
      const isOk = end === 'It ended with 0.' && parser.results?.ok === true;
      // What fails in a test is reported by then.
      if (!isOk && (/[A-Z]\.$/.test(end) || !failed.has(name))) fail(name, end);
      const seconds = ((Date.now() - begin) / 1000).toFixed(1);
      print(`${failed.has(name) ? 'FAIL' : 'ok  '} ${name} (${seconds} s)`);
    }
  };
  await Promise.all(Array.from({ length: run.jobs }, work));
  print(
    `\nFiles: ${files.length - failed.size} passed, ${failed.size} failed ${[...failed].join(', ')}`.trimEnd(),
  );
  for (const [lack, names] of skipped) print(`Skipped in ${[...names].join(', ')}: ${lack}`);
  const numbers = Object.entries(totals).map(([kind, number]) => `${kind}: ${number}`);
  print(`# { ${numbers.join(', ')} }`);
  const selectsNone = [...skipped.keys()].some((reason) => reason.startsWith('filter:')) && !totals['pass'];
  if (selectsNone) print('The filter selects no test. For a test in a test, it is --grep=. --grep=NAME');
  return failed.size === 0 && !selectsNone;
}

/**
 * Runs a file until its process has ended, and then ends all that this has started.
 * @param {File} file
 * @param {Run} run
 * @param {Parser} parser
 * @returns {Promise<string>} How it has ended.
 */
async function runFile({ script }, { nodeOptions, env, patience }, parser) {
  const child = spawn(process.execPath, [...nodeOptions, script], {
    // Without a time limit of tap's own.
    env: { ...process.env, TAP_TIMEOUT: '0', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
    // Leads a group of all that it starts. Ctrl+C is for the runner alone.
    detached: true,
  });
  const group = Number(child.pid);
  running.add(group);
  let stalled = '';
  const timer = setTimeout(() => {
    stalled = `It printed nothing for ${patience} s. `;
    child.kill('SIGKILL');
  }, patience * 1_000);
  child.stdout.on('data', () => timer.refresh()).pipe(parser);
  const closed = once(child, 'close');
  const [status, signal] = await once(child, 'exit');
  endGroup(group);
  running.delete(group);
  clearTimeout(timer);
  await closed;
  return `${stalled}It ended with ${signal ?? status}.`;
}

/** Ends what is left of a group of processes. @param {number} group */
function endGroup(group) {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // Nothing is left.
  }
}
