// The output of `npm test`: which files there are and run, one line for each that has ended, all failures with the command
// that repeats each, and the reasons for skipped tests.
import { Parser } from 'tap-parser';
import { stringify } from 'yaml';

/**
 * What is known of a test file that has begun.
 * @typedef {object} State
 * @property {number} begin - In ms.
 * @property {Parser} parser - Of its output.
 */

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
const indent = (text) => text.trimEnd().replace(/^/gm, '    ') + '\n';

/** The report of a run. */
export class Report {
  /** Whether there was a line since the running files could last be named. */
  #spoke = false;
  #write;
  #count;
  #ended = 0;
  /** The running files. @type {Map<string, State>} */
  #running = new Map();
  /** Files with a failure. @type {Set<string>} */
  #failed = new Set();
  /** The commands that repeat the failures. @type {Set<string>} */
  #repeat = new Set();
  /** The files of skipped tests, by reason. @type {Map<string, string[]>} */
  #skipped = new Map();
  /** The numbers of assertions, by result. @type {Record<string, number>} */
  #totals = { total: 0, pass: 0 };

  /** @param {number} count - The number of files. @param {(text: string) => void} write */
  constructor(count, write = (text) => process.stdout.write(text)) {
    this.#count = count;
    this.#write = write;
  }

  /** Prints text that ends with a line break. @param {string} text */
  print(text) {
    this.#spoke = true;
    this.#write(text);
  }

  /**
   * Begins a file.
   * @param {string} file - Its path.
   * @param {import('node:stream').Readable} output - Its output, in TAP.
   */
  begin(file, output) {
    const parser = new Parser({ name: file });
    this.#running.set(file, { begin: Date.now(), parser });
    output.pipe(parser);
    // Of tests in a test, without the result of the outer one.
    parser.on('result', ({ ok, fullname, skip, diag }) => {
      if (skip) this.#skipped.set(String(skip), [...(this.#skipped.get(String(skip)) ?? []), file]);
      else if (!ok) this.#fail(fullname, diag ? stringify(diag, { lineWidth: 0 }) : '');
    });
    parser.on('bailout', (reason) => this.#fail(file, `bailed out: ${reason}`));
    parser.on('comment', (comment) => {
      // The numbers of all assertions of the file.
      if (!comment.startsWith('# {')) return;
      for (const [, name = '', number] of comment.matchAll(/(\w+): (\d+)/g)) {
        this.#totals[name] = (this.#totals[name] ?? 0) + Number(number);
      }
    });
  }

  /**
   * Ends a file.
   * @param {string} file
   * @param {number | string} status - The status with which its process has ended, or the signal that ended it.
   * @param {readonly string[]} [faults] - Why it was ended.
   * @param {number} [processor] - The processor time that it took with all its processes, in seconds.
   */
  end(file, status, faults = [], processor = NaN) {
    const state = this.#running.get(file);
    if (state === undefined) return;
    const ok = status === 0 && state.parser.results?.ok === true;
    // What fails in a test is reported by then.
    if (faults.length > 0 || (!ok && (typeof status === 'string' || !this.#failed.has(file)))) {
      this.#fail(file, [...faults, `The process ended with ${status}.`].join('\n'));
    }
    this.#running.delete(file);
    this.#ended++;
    const seconds = ((Date.now() - state.begin) / 1000).toFixed(1);
    const times = [`${seconds} s`, ...(Number.isNaN(processor) ? [] : [`CPU ${processor.toFixed(1)} s`])];
    const result = this.#failed.has(file) ? 'FAIL' : 'ok  ';
    this.print(`${result} ${this.#progress()} ${file} (${times.join(', ')})\n`);
  }

  /** Says which files run, if nothing has been said since the last call. */
  remind() {
    const spoke = this.#spoke;
    this.#spoke = false;
    if (spoke) return;
    const running = [...this.#running].map(
      ([file, { begin }]) => `       ${file} (${Math.round((Date.now() - begin) / 1000)} s)\n`,
    );
    this.#write(`     ${this.#progress()} still running:\n${running.join('')}`);
  }

  /** Prints the totals. @returns {boolean} Whether all is well. */
  summarize() {
    const passed = this.#ended - this.#failed.size;
    this.print(`\nFiles: ${passed} passed, ${this.#failed.size} failed\n`);
    for (const [lack, files] of this.#skipped) {
      this.print(`Skipped, ${files.length} in ${[...new Set(files)].join(', ')}: ${lack}\n`);
    }
    if (this.#repeat.size > 0) this.print(`To repeat the failures:\n${indent([...this.#repeat].join('\n'))}`);
    const totals = Object.entries(this.#totals).map(([name, number]) => `${name}: ${number}`);
    this.print(`Full results by file: .tap/\n# { ${totals.join(', ')} }\n`);
    const isFiltered = [...this.#skipped.keys()].some((reason) => reason.startsWith('filter:'));
    const selectsNone = isFiltered && this.#totals['pass'] === 0 && this.#failed.size === 0;
    if (selectsNone) {
      this.print(
        'The filter selects no test. Each --grep is for one level: for a test in a test, --grep=. --grep=NAME\n',
      );
    }
    return this.#failed.size === 0 && !selectsNone;
  }

  #progress() {
    return `${String(this.#ended).padStart(String(this.#count).length)}/${this.#count}`;
  }

  /** @param {string} path - The names of the file, of the test and its parents, from the outside in. @param {string} reason */
  #fail(path, reason) {
    const [file = '', test] = path.split(' > ');
    // Of tests that are nested, the outermost can be run alone.
    const command = repeatCommand(file, test);
    this.#failed.add(file);
    this.#repeat.add(command);
    this.print(`not ok: ${path}\n${indent(`${reason.trimEnd()}\nrepeat with: ${command}`)}`);
  }
}
