// Writes docs/evidence.md from docs/evidence.json, which has each claim, the command that checks it, and the output of the
// command for one commit. Fails if a result lacks a number that the page needs, or if README.md or another page quotes a
// number that is not in the record.
//
//   node scripts/generate/evidence.js               writes the page
//   node scripts/generate/evidence.js --check       exits with 1 if the page is out of date
//   node scripts/generate/evidence.js --run         runs all commands for the present commit, records what they show, and
//                                                   writes the page; those that need more programs than .ci/run are left out
//   node scripts/generate/evidence.js --run WORD    runs the commands that contain the word, for the commit of the others
//   node scripts/generate/evidence.js --release     exits with 1 if the product has changed since that commit
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { availableParallelism, cpus, release } from 'node:os';
import { fileURLToPath } from 'node:url';
import { writeGenerated } from '../lib/generated.js';

/**
 * The record of a command that has run.
 * @typedef {object} Result
 * @property {string} date
 * @property {number} status - The exit status.
 * @property {string} shown
 */
/**
 * @typedef {object} Claim
 * @property {string} topic
 * @property {string} claim - It begins with the promise of README.md, in bold, if it is one.
 * @property {string} command - `npm …`, `node …` or `scripts/…`.
 * @property {true} [always] - Whether .ci/run checks it on every change.
 * @property {string} [needs] - What the command needs beyond the programs of .ci/run.
 * @property {string} [shows] - A pattern of the parts of what the command shows that the page has; all of it by default.
 * @property {string} [says] - What the page says instead, with `$1` for the first of these parts, `$~1` for the same as a
 *   rounded number, and so on, and `$total` for the sum of the last number of each part.
 * @property {Record<string, string>} [quotes] - The words in which other pages quote the result, in the same form, by page.
 * @property {Result} [last] - Without it, the page has the claim only if .ci/run checks it.
 */

const root = fileURLToPath(new URL('../..', import.meta.url));
const file = 'docs/evidence.json';
/** @type {{ commit: string, machine: string, claims: Claim[] }} */
const ledger = JSON.parse(await readFile(`${root}${file}`, 'utf8'));
/** The files that the results depend on: they hold for a commit in which none of these differs. */
const product = ['package-lock.json', 'openapi.yaml', 'src', 'packages/client/src', 'packages/server/src'];

const [option, word] = process.argv.slice(2);
if (option === '--run') await run();
if (option === '--release' && isChanged() !== false) {
  console.error(
    `The product has changed since ${ledger.commit}: run "npm run evidence", and commit what it writes.`,
  );
  process.exitCode = 1;
}
await writeGenerated('docs/evidence.md', render());
for (const fault of [...findMisquotes(), ...findUnquotedNumbers()]) {
  console.error(fault);
  process.exitCode = 1;
}

/** Runs the commands, and keeps what they show. */
async function run() {
  if (git('status', '--porcelain').stdout !== '') throw new Error('commit first: the results name a commit');
  if (word === undefined) {
    ledger.commit = git('rev-parse', '--short=10', 'HEAD').stdout.trim();
    ledger.machine = `${availableParallelism()} cores (${cpus()[0]?.model.trim()}), Linux ${release().split('-')[0]}`;
    for (const claim of ledger.claims) delete claim.last;
  } else if (isChanged() !== false) {
    throw new Error(
      `the product has changed since ${ledger.commit}, of which the other results are: run all`,
    );
  }
  const isChosen = (/** @type {Claim} */ { command, needs }) =>
    word === undefined ? needs === undefined : command.includes(word);
  for (const claim of ledger.claims.filter(isChosen)) {
    console.log(`== ${claim.command}`);
    const child = spawn('bash', ['-c', claim.command], {
      cwd: root,
      // npx does not ask.
      env: { ...process.env, npm_config_yes: 'true' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (/** @type {Buffer} */ chunk) => {
      process.stdout.write(chunk);
      output += chunk.toString();
    });
    const [status] = await once(child, 'close');
    // Without the lines of npm, the details of a line before, unless the page has them, and the "yes" before what holds.
    const shows = new RegExp(claim.shows ?? '^$');
    const lines = output.split('\n').filter((line) => /^[^>\s]/.test(line) || shows.test(line));
    claim.last = {
      date: new Date().toISOString().slice(0, 10),
      status: Number(status),
      shown: lines
        .map((line) => line.replace(/^yes /, '').trim())
        .slice(-30)
        .join('; ')
        .replace(/\s+/g, ' ')
        .slice(-2_500),
    };
    if (status !== 0) process.exitCode = 1;
    await writeGenerated(file, JSON.stringify(ledger, undefined, 2));
  }
}

/**
 * Returns whether the product has changed since the results: undefined if their commit is not known, as in a shallow clone.
 */
function isChanged() {
  const { status } = git('diff', '--quiet', ledger.commit, '--', ...product);
  return status === 0 || status === 1 ? status === 1 : undefined;
}

/** @param {string[]} args */
function git(...args) {
  return spawnSync('git', args, { cwd: root, encoding: 'utf8' });
}

/** Shortens an output for the page. @param {string} shown */
function excerpt(shown) {
  return shown.length <= 120 ? shown : `${shown.slice(0, 120)}…`;
}

/** Separates thousands. @param {string} text */
function separated(text) {
  return text.replace(/\b\d{4,}\b/g, (digits) => Number(digits).toLocaleString('en'));
}

/** The parts of a claim's output that it shows. @param {Claim} claim */
function partsOf({ shows = '^$', last }) {
  return last?.shown.match(new RegExp(shows, 'g')) ?? [];
}

/**
 * Fills in the parts of a claim's output.
 * @param {string} text - With `$1` and so on, and `$total`.
 * @param {Claim} claim
 * @throws {Error} when the output lacks one of them.
 */
function filled(text, claim) {
  const parts = partsOf(claim);
  const total = parts.reduce((sum, part) => sum + Number(part.match(/\d+(?!.*\d)/)?.[0]), 0);
  return text.replace(
    /\$(~?)(\d|total)/g,
    (name, /** @type {string} */ rounded, /** @type {string} */ key) => {
      const value = key !== 'total' ? parts[Number(key) - 1] : total > 0 ? String(total) : undefined;
      if (value === undefined) throw new Error(`${file}: the record of "${claim.command}" lacks ${name}`);
      return rounded === '' ? value : String(Math.round(Number(value)));
    },
  );
}

/** A row of the table. @param {Claim} claim */
function row(claim) {
  const { command, always, shows, says, last } = claim;
  const { date = '', status = 0, shown = 'passes' } = last ?? {};
  const parts = partsOf(claim);
  if (last !== undefined && shows !== undefined && parts.length === 0)
    throw new Error(`${file}: the record of "${command}" has nothing of what the page shows`);
  const told = last === undefined ? undefined : says && filled(says, claim);
  const result = told ?? (parts.length > 0 ? parts.join('; ') : excerpt(shown));
  const outcome = `${status === 0 ? '' : `**failed (${status})**: `}${separated(result)}`;
  // The introduction says how to run a command that needs a newer Node.js.
  const shortened = command.replace('npx --package node@24 -- ', '');
  return `| ${[claim.claim, outcome, always ? '✓' : date, `\`${shortened}\``].join(' | ')} |`;
}

/** A page in one line. @param {string} page */
function read(page) {
  return readFileSync(`${root}${page}`, 'utf8').replaceAll(/\s+/g, ' ');
}

/** Finds the quotes that other pages do not have, or have in other words or with other numbers. */
function findMisquotes() {
  return ledger.claims.flatMap((claim) =>
    Object.entries(claim.quotes ?? {}).flatMap(([page, quote]) => {
      const text = separated(filled(quote, claim));
      if (claim.last?.status !== 0) return [`${page} quotes "${claim.command}", which has failed`];
      return read(page).includes(text) ? [] : [`${page} does not say "${text}", as ${file} has it`];
    }),
  );
}

/** Finds the numbers in the promises of README.md that are in none of its quotes. */
function findUnquotedNumbers() {
  const quotes = ledger.claims.flatMap((claim) => {
    const quote = claim.quotes?.['README.md'];
    return quote === undefined ? [] : [separated(filled(quote, claim))];
  });
  const promises = readFileSync(`${root}README.md`, 'utf8').match(/^- \*\*\w[^]*?(?=\n\n|\n- )/gm) ?? [];
  return promises.flatMap((promise) => {
    const own = quotes.reduce((text, quote) => text.replace(quote, ''), promise.replaceAll(/\s+/g, ' '));
    // Integers have 64 bits by definition.
    const numbers = own.replace('64 bits', '').match(/\d[\d.,]*\d|\d/g) ?? [];
    return numbers.map((number) => `README.md promises ${number}, which no record in ${file} has`);
  });
}

/** Returns the page. */
function render() {
  const shown = ledger.claims.filter(({ always, last }) => always === true || last !== undefined);
  const sections = [...new Set(shown.map(({ topic }) => topic))].map((topic) => {
    const rows = shown.filter((claim) => claim.topic === topic).map(row);
    return `## ${topic}\n\n| what | result | when | command |\n|---|---|---|---|\n${rows.join('\n')}`;
  });
  return `<!-- Written by "node scripts/generate/evidence.js" from docs/evidence.json; do not edit. -->

# Evidence

What was checked, the result, and the command that repeats it, for commit ${ledger.commit} on ${ledger.machine}.
${age()} Checks that were not run for this commit are left out. ✓: \`.ci/run\` repeats it on each change, partly with fewer
requests; "passes" means only this. \`npm run evidence\` renews what needs no other programs than \`.ci/run\`, and
\`npm run evidence -- WORD\` the results whose command contains the word. Several threads
[need Node.js 22.12](../CONTRIBUTING.md#larger-checks).

${sections.join('\n\n')}
`;
}

/** Says whether the results are those of the present product; if git does not know, what the page has said. */
function age() {
  const changed = `**The product has changed since then**, so the results are those of its past:
\`git log ${ledger.commit}.. -- ${product.join(' ')}\` lists the changes.`;
  const unchanged = 'The product has not changed since then.';
  return (isChanged() ?? !read('docs/evidence.md').includes(unchanged)) ? changed : unchanged;
}
