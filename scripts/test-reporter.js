// What `npm test` prints: tap's own report in a terminal; elsewhere a line for each file, each failure, and what was
// skipped for want of what.
import { Transform } from 'node:stream';
import { types } from '@tapjs/reporter';
import { Parser } from 'tap-parser';
import { stringify } from 'yaml';

/** Reads TAP and writes the report. tap pipes it from the tests and to standard output. */
class ShortReport extends Transform {
  #parser = new Parser();
  /** The files of the tests that were skipped, by what they lack. @type {Map<string, string[]>} */
  #skipped = new Map();
  #files = 0;
  #failedFiles = 0;

  constructor() {
    super({ decodeStrings: false });
    this.#parser.on('child', (file) => this.#watch(file, file.name, [file.name]));
    this.#parser.on('assert', ({ ok, name, time }) => {
      this.#files++;
      if (!ok) this.#failedFiles++;
      this.push(
        `${ok ? 'ok  ' : 'FAIL'} ${name}${time === null ? '' : ` (${(time / 1000).toFixed(1)} s)`}\n`,
      );
    });
    // The totals of all checks, the last line of tap's own output.
    this.#parser.on('comment', (comment) => {
      if (comment.startsWith('# {')) this.#summarize(comment);
    });
  }

  /**
   * Reports what fails or is skipped in a test.
   * @param {Parser} test
   * @param {string} file
   * @param {string[]} path - The names of the test and of those that it is in.
   */
  #watch(test, file, path) {
    /** The test in this one that ended last: its result follows, and says nothing new. @type {Parser | undefined} */
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
    });
    test.on('bailout', (reason) => this.push(`${path.join(' > ')} bailed out: ${reason}\n`));
  }

  /** @param {string} totals */
  #summarize(totals) {
    this.push(`\nFiles: ${this.#files - this.#failedFiles} passed, ${this.#failedFiles} failed\n`);
    for (const [lack, files] of this.#skipped) {
      this.push(`Skipped, ${files.length} in ${[...new Set(files)].join(', ')}: ${lack}\n`);
    }
    this.push(`Every check, file by file: .tap/test-results/\n${totals.trimEnd()}\n`);
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

export default process.stdout.isTTY ? types['base'] : ShortReport;
