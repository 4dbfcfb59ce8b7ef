// The output of `npm test`: one line per file, all failures with the command that repeats each, and the reasons for
// skipped tests.
import { Transform } from 'node:stream';
import { Parser } from 'tap-parser';
import { stringify } from 'yaml';

/**
 * The source of a compiled test.
 * @param {string} file
 */
const sourceOf = (file) => file.replace(/^dist-test(.*)js$/, 'test$1ts');

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

/** Transforms TAP into the report; tap pipes the tests' output through it. */
export default class ShortReport extends Transform {
  #parser = new Parser();
  /** The files of skipped tests, by reason. @type {Map<string, string[]>} */
  #skipped = new Map();
  #files = 0;
  #failedFiles = 0;

  constructor() {
    super({ decodeStrings: false });
    this.#parser.on('child', (file) => this.#watch(file, sourceOf(file.name), [sourceOf(file.name)]));
    this.#parser.on('assert', ({ ok, name, time }) => {
      this.#files++;
      if (!ok) this.#failedFiles++;
      this.push(
        `${ok ? 'ok  ' : 'FAIL'} ${sourceOf(name)}${time === null ? '' : ` (${(time / 1000).toFixed(1)} s)`}\n`,
      );
    });
    // The totals of all assertions, in the last line of tap's output.
    this.#parser.on('comment', (comment) => {
      if (comment.startsWith('# {')) this.#summarize(comment);
    });
  }

  /**
   * Reports failures and skips in a test.
   * @param {Parser} test
   * @param {string} file
   * @param {string[]} path - The names of the test and its parents, from the outside in.
   */
  #watch(test, file, path) {
    /** The last nested test, whose result follows and adds no information. @type {Parser | undefined} */
    let inner;
    test.on('child', (child) => {
      inner = child;
      this.#watch(child, file, [...path, child.name]);
    });
    test.on('assert', ({ ok, name, skip, diag }) => {
      const results = inner !== undefined && inner.name === name ? inner.results : undefined;
      const known = results !== undefined && results !== null && !results.ok && results.count > 0;
      inner = undefined;
      if (skip) this.#skipped.set(String(skip), [...(this.#skipped.get(String(skip)) ?? []), file]);
      if (ok || known) return;
      this.push(`not ok: ${[...path, name].join(' > ')}\n`);
      if (diag) this.push(stringify(diag, { lineWidth: 0 }).replace(/^/gm, '    ').trimEnd() + '\n');
      // Of tests that are nested, the outermost can be run alone.
      this.push(`    repeat with: ${repeatCommand(file, path.length > 1 ? path[1] : undefined)}\n`);
    });
    test.on('bailout', (reason) => this.push(`${path.join(' > ')} bailed out: ${reason}\n`));
  }

  /** @param {string} totals */
  #summarize(totals) {
    this.push(`\nFiles: ${this.#files - this.#failedFiles} passed, ${this.#failedFiles} failed\n`);
    for (const [lack, files] of this.#skipped) {
      this.push(`Skipped, ${files.length} in ${[...new Set(files)].join(', ')}: ${lack}\n`);
    }
    this.push(`Full results by file: .tap/test-results/\n${totals.trimEnd()}\n`);
    const isFiltered = [...this.#skipped.keys()].some((reason) => reason.startsWith('filter:'));
    if (!isFiltered || /\b(pass|fail): [1-9]/.test(totals)) return;
    this.push(
      'The filter selects no test. Each --grep is for one level: for a test in a test, --grep=. --grep=NAME\n',
    );
    // Tap sets its own status when all output has been read.
    process.once('exit', () => (process.exitCode ||= 1));
  }

  /**
   * @override
   * @param {string} chunk
   * @param {BufferEncoding} encoding
   * @param {() => void} done
   */
  _transform(chunk, encoding, done) {
    this.#parser.write(chunk, encoding);
    done();
  }

  /**
   * @override
   * @param {() => void} done
   */
  _flush(done) {
    this.#parser.end();
    done();
  }
}
