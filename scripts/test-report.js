// The output of `npm test`: one line for each file that has ended, all failures with the command that repeats each, and the
// reasons for skipped tests.
import { Parser } from 'tap-parser';
import { stringify } from 'yaml';

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
  #write;
  #count;
  #ended = 0;
  /** When each running file began, in ms, and the parser of its output. @type {Map<string, { begin: number, parser: Parser }>} */
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
      for (const [, name = '', number] of comment.matchAll(/(\w+): (\d+)/g))
        this.#totals[name] = (this.#totals[name] ?? 0) + Number(number);
    });
  }

  /**
   * Ends a file.
   * @param {string} file
   * @param {number | string} status - The status with which its process has ended, or the signal that ended it.
   * @param {string} [fault] - Why it was ended.
   * @param {number} [processor] - The processor time that it took with all its processes, in seconds.
   */
  end(file, status, fault = '', processor = NaN) {
    const state = this.#running.get(file);
    if (state === undefined) return;
    this.#running.delete(file);
    this.#ended++;
    const isOk = status === 0 && state.parser.results?.ok === true;
    // What fails in a test is reported by then.
    if (!isOk && (typeof status === 'string' || !this.#failed.has(file)))
      this.#fail(file, `${fault}\nThe process ended with ${status}.`.trim());
    const seconds = ((Date.now() - state.begin) / 1000).toFixed(1);
    const progress = `${String(this.#ended).padStart(String(this.#count).length)}/${this.#count}`;
    const result = this.#failed.has(file) ? 'FAIL' : 'ok  ';
    this.print(`${result} ${progress} ${file} (${seconds} s, CPU ${processor.toFixed(1)} s)\n`);
  }

  /** Prints the totals. @returns {boolean} Whether all is well. */
  summarize() {
    const passed = this.#ended - this.#failed.size;
    this.print(`\nFiles: ${passed} passed, ${this.#failed.size} failed\n`);
    for (const [lack, files] of this.#skipped)
      this.print(`Skipped, ${files.length} in ${[...new Set(files)].join(', ')}: ${lack}\n`);
    if (this.#repeat.size > 0) this.print(`To repeat the failures:\n${indent([...this.#repeat].join('\n'))}`);
    const totals = Object.entries(this.#totals).map(([name, number]) => `${name}: ${number}`);
    this.print(`Full results by file: .tap/\n# { ${totals.join(', ')} }\n`);
    const isFiltered = [...this.#skipped.keys()].some((reason) => reason.startsWith('filter:'));
    const selectsNone = isFiltered && this.#totals['pass'] === 0 && this.#failed.size === 0;
    if (selectsNone)
      this.print(
        'The filter selects no test. Each --grep is for one level: for a test in a test, --grep=. --grep=NAME\n',
      );
    return this.#failed.size === 0 && !selectsNone;
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
