// Runs test files, a few at a time, each in a process of its own, and reports one line for each file that has ended, all
// failures with the command that repeats each, and the reasons for skipped tests. A file is ended when it prints nothing for
// long; how long it takes does not matter, since the machine may be slow.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Parser } from 'tap-parser';
import { stringify } from 'yaml';

/**
 * A run.
 * @typedef {object} Run
 * @property {number} jobs - How many files run simultaneously.
 * @property {string[]} nodeOptions
 * @property {Record<string, string>} env - Variables, in addition to those of this process.
 * @property {string} results - The folder for the files' output.
 * @property {number} patience - For how long a file may print nothing, in seconds.
 * @property {(text: string) => void} [print] - Prints lines; to standard output by default.
 */

/** A test file. @typedef {{ name: string, script: string }} File - The name to report, and what Node.js runs. */

/** The process groups of the files that run. @type {Set<number>} */
const running = new Set();
process.once('exit', () => {
  for (const group of running) endGroup(group);
});

/**
 * The command that runs a test again.
 * @param {string} file
 * @param {string | undefined} test - The test's name; undefined for the file.
 */
function repeatCommand(file, test) {
  const pattern = test?.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll("'", "'\\''");
  // What selects other tests, or other data.
  const settings = ['TEST_ENGINES', 'FUZZ_SEED', 'FUZZ_REQUESTS'].flatMap((name) =>
    process.env[name] === undefined ? [] : [`${name}='${process.env[name]}' `],
  );
  return `${settings.join('')}npm test -- ${file}${pattern === undefined ? '' : ` '--grep=^${pattern}$'`}`;
}

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
  /** Files with a failure, and the commands that repeat the failures. @type {Map<string, Set<string>>} */
  const failed = new Map();
  /** The files of skipped tests, by reason. @type {Map<string, string[]>} */
  const skipped = new Map();
  /** The numbers of assertions, by result. @type {Record<string, number>} */
  const totals = { total: 0, pass: 0 };
  let ended = 0;
  /** @param {string} path - The names of the file, of the test and its parents, from the outside in. @param {string} reason */
  const fail = (path, reason) => {
    // Of tests that are nested, the outermost can be run alone.
    const [file = '', test] = path.split(' > ');
    const command = repeatCommand(file, test);
    failed.set(file, (failed.get(file) ?? new Set()).add(command));
    print(`not ok: ${path}\n${indent(`${reason.trimEnd()}\nrepeat with: ${command}`)}`);
  };
  /** Reads the output of a file. @param {string} name */
  const parserOf = (name) => {
    const parser = new Parser({ name });
    // Of tests in a test, without the result of the outer one.
    parser.on('result', ({ ok, fullname, skip, diag }) => {
      if (skip) skipped.set(String(skip), [...(skipped.get(String(skip)) ?? []), name]);
      else if (!ok) fail(fullname, diag ? stringify(diag, { lineWidth: 0 }) : '');
    });
    parser.on('bailout', (reason) => fail(name, `bailed out: ${reason}`));
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
      const { status, fault, errors } = await runFile(file, run, parser);
      if (errors !== '') print(`standard error of ${name}:\n${errors}`);
      const isOk = status === 0 && parser.results?.ok === true;
      // What fails in a test is reported by then.
      if (!isOk && (typeof status === 'string' || !failed.has(name)))
        fail(name, `${fault}\nThe process ended with ${status}.`.trim());
      const seconds = ((Date.now() - begin) / 1000).toFixed(1);
      const progress = `${String(++ended).padStart(String(files.length).length)}/${files.length}`;
      print(`${failed.has(name) ? 'FAIL' : 'ok  '} ${progress} ${name} (${seconds} s)`);
    }
  };
  await Promise.all(Array.from({ length: run.jobs }, work));
  print(`\nFiles: ${ended - failed.size} passed, ${failed.size} failed`);
  for (const [lack, names] of skipped)
    print(`Skipped, ${names.length} in ${[...new Set(names)].join(', ')}: ${lack}`);
  const repeat = [...failed.values()].flatMap((commands) => [...commands]);
  if (repeat.length > 0) print(`To repeat the failures:\n${indent(repeat.join('\n'))}`);
  const numbers = Object.entries(totals).map(([kind, number]) => `${kind}: ${number}`);
  print(`Full results by file: .tap/\n# { ${numbers.join(', ')} }`);
  const isFiltered = [...skipped.keys()].some((reason) => reason.startsWith('filter:'));
  const selectsNone = isFiltered && totals['pass'] === 0 && failed.size === 0;
  if (selectsNone)
    print(
      'The filter selects no test. Each --grep is for one level: for a test in a test, --grep=. --grep=NAME',
    );
  return failed.size === 0 && !selectsNone;
}

/**
 * Runs a file until its process has ended, and then ends all that this has started.
 * @param {File} file
 * @param {Run} run
 * @param {Parser} parser
 */
async function runFile({ name, script }, { nodeOptions, env, results, patience }, parser) {
  const child = spawn(process.execPath, [...nodeOptions, script], {
    // Without a time limit of tap's own.
    env: { ...process.env, TAP_TIMEOUT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    // Leads a group of all that it starts. Ctrl+C is for the runner alone.
    detached: true,
  });
  const group = Number(child.pid);
  running.add(group);
  let [fault, errors] = ['', ''];
  const stalled = setTimeout(() => {
    fault = `It printed nothing for ${patience} s.`;
    child.kill('SIGKILL');
  }, patience * 1_000);
  const output = join(results, `${name}.tap`);
  mkdirSync(dirname(output), { recursive: true });
  child.stdout.on('data', () => stalled.refresh()).pipe(createWriteStream(output));
  child.stdout.pipe(parser);
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stalled.refresh();
    errors += text;
  });
  const closed = once(child, 'close');
  const [status, signal] = await once(child, 'exit');
  endGroup(group);
  running.delete(group);
  clearTimeout(stalled);
  await closed;
  return { status: signal ?? status, fault, errors };
}

/** Ends what is left of a group of processes. @param {number} group */
function endGroup(group) {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // Nothing is left.
  }
}
