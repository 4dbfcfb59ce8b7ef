// Writes docs/evidence.md from docs/evidence.json, which has each claim, the command that checks it, and what the command
// showed last, with its commit. Fails if a result lacks a number that the page needs, or if README.md or another page quotes
// a number that is not in the record.
//
//   node scripts/generate/evidence.js               writes the page
//   node scripts/generate/evidence.js --check       exits with 1 if the page is out of date
//   node scripts/generate/evidence.js --run [WORD]  runs the commands that contain the word for the present commit, records
//                                                   what they show, and writes the page; without a word, all but those that
//                                                   need more programs than .ci/run, or whose results are still valid
//   node scripts/generate/evidence.js --release     exits with 1 if the product has changed since a result
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, release } from 'node:os';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { writeGenerated } from '../lib/generated.js';

/**
 * @typedef {object} Claim
 * @property {string} topic
 * @property {string} claim - It begins with the promise of README.md, in bold, if it is one.
 * @property {string} command - `npm …` or another program.
 * @property {true} [always] - Whether .ci/run checks it on every change.
 * @property {string} [needs] - What the command needs beyond the programs of .ci/run.
 * @property {string} [shows] - A pattern of the parts of what the command shows that the page has; all of it by default.
 * @property {string} [says] - What the page says instead, with `$1` for the first of these parts and so on, and `$total` for
 *   the sum of the last number of each part.
 * @property {Record<string, string>} [quotes] - The words in which other pages quote the result, in the same form, by page.
 * @property {{ commit: string, date: string, status: number, shown: string }} [last] - Without it, the page has the claim
 *   only if .ci/run checks it.
 */

const root = fileURLToPath(new URL('../..', import.meta.url));
const file = 'docs/evidence.json';
/** @type {{ machine: string, claims: Claim[] }} */
const ledger = JSON.parse(readFileSync(`${root}${file}`, 'utf8'));
/** The files that the results depend on: they hold for a commit in which none of these differs. */
const product = ['package-lock.json', 'openapi.yaml', 'src', 'packages/client/src', 'packages/server/src'];

const [option, word] = process.argv.slice(2);
if (option === '--run') await run();
if (option === '--release')
  for (const { command, last } of ledger.claims)
    if (last !== undefined && hasChanged(last.commit))
      fail(`run "npm run evidence": ${command} is out of date`);
await writeGenerated('docs/evidence.md', render());
for (const fault of [...findMisquotes(), ...findUnquotedNumbers()]) fail(fault);

/** @param {string} fault */
function fail(fault) {
  console.error(fault);
  process.exitCode = 1;
}

/** Runs the commands, and keeps what they show after each. */
async function run() {
  if (git('status', '--porcelain', '--', ...product).stdout !== '')
    throw new Error('commit the product first');
  const commit = git('rev-parse', '--short=10', 'HEAD').stdout.trim();
  ledger.machine = `${availableParallelism()} cores (${cpus()[0]?.model.trim()}), Linux ${release().split('-')[0]}`;
  for (const claim of ledger.claims) {
    const { command, needs, last } = claim;
    const isDue = needs === undefined && (last?.status !== 0 || hasChanged(last.commit));
    if (word === undefined ? !isDue : !command.includes(word)) continue;
    console.log(`== ${command}`);
    const env = { ...process.env, npm_config_yes: 'true' };
    const child = spawn('bash', ['-c', command], { cwd: root, env, stdio: ['ignore', 'pipe', 'inherit'] });
    child.stdout.pipe(process.stdout);
    const [output, [status]] = await Promise.all([text(child.stdout), once(child, 'close')]);
    // Without the lines of npm, the details of a line before, unless the page has them, and the "yes" before what holds.
    const shows = new RegExp(claim.shows ?? '^$');
    const lines = output.split('\n').filter((line) => /^[^>\s]/.test(line) || shows.test(line));
    const shown = lines.map((line) => line.replace(/^yes /, '').trim()).slice(-30);
    claim.last = {
      ...{ commit, date: new Date().toISOString().slice(0, 10), status: Number(status) },
      shown: shown.join('; ').replace(/\s+/g, ' ').slice(-2_500),
    };
    if (status !== 0) process.exitCode = 1;
    await writeGenerated(file, JSON.stringify(ledger, undefined, 2));
  }
}

/** Whether the product has changed since a commit; not if it is unknown, as in a shallow clone. @param {string} commit */
function hasChanged(commit) {
  return git('diff', '--quiet', commit, '--', ...product).status === 1;
}

/** @param {string[]} args */
function git(...args) {
  return spawnSync('git', args, { cwd: root, encoding: 'utf8' });
}

/** Separates thousands. @param {string} numbers */
function separated(numbers) {
  return numbers.replace(/\b\d{4,}\b/g, (digits) => Number(digits).toLocaleString('en'));
}

/** The parts of a claim's output that the page has. @param {Claim} claim */
function partsOf({ shows = '^$', last }) {
  return last?.shown.match(new RegExp(shows, 'g')) ?? [];
}

/**
 * Fills in the parts of a claim's output.
 * @param {string} words - With `$1` and so on, and `$total`.
 * @param {Claim} claim
 * @throws {Error} when the output lacks one of them.
 */
function filled(words, claim) {
  const parts = partsOf(claim);
  const total = parts.reduce((sum, part) => sum + Number(part.match(/\d+(?!.*\d)/)?.[0]), 0);
  return words.replace(/\$(\d|total)/g, (name, key) => {
    const value = key !== 'total' ? parts[Number(key) - 1] : total > 0 ? String(total) : undefined;
    if (value === undefined) throw new Error(`${file}: the record of "${claim.command}" lacks ${name}`);
    return value;
  });
}

/** A row of the table. @param {Claim} claim */
function row(claim) {
  const { command, always, says, last } = claim;
  const parts = partsOf(claim).join('; ');
  const shown =
    last === undefined ? 'passes' : says ? filled(says, claim) : parts || last.shown.slice(0, 120);
  const result = `${(last?.status ?? 0) === 0 ? '' : `**failed (${last?.status})**: `}${separated(shown)}`;
  const when = last === undefined ? '✓' : `${always ? '✓ ' : ''}${last.date}, ${last.commit}`;
  // The introduction says how to run a command that needs a newer Node.js.
  return `| ${[claim.claim, result, when, `\`${command.replace('npx --package node@24 -- ', '')}\``].join(' | ')} |`;
}

/** A page in one line. @param {string} page */
function read(page) {
  return readFileSync(`${root}${page}`, 'utf8').replaceAll(/\s+/g, ' ');
}

/** Finds the quotes that other pages do not have, or have in other words or with other numbers. */
function findMisquotes() {
  return ledger.claims.flatMap((claim) =>
    Object.entries(claim.quotes ?? {}).flatMap(([page, quote]) => {
      const words = separated(filled(quote, claim));
      if (claim.last?.status !== 0) return [`${page} quotes "${claim.command}", which has failed`];
      return read(page).includes(words) ? [] : [`${page} does not say "${words}", as ${file} has it`];
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
  // Integers have 64 bits by definition.
  const rest = [...quotes, '64 bits'].reduce(
    (words, quote) => words.replace(quote, ''),
    promises.join(' ').replaceAll(/\s+/g, ' '),
  );
  const numbers = rest.match(/\d[\d.,]*\d|\d/g) ?? [];
  return numbers.map((number) => `README.md promises ${number}, which no record in ${file} has`);
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

For those who doubt a promise: what was checked, the result, its date and commit, and the command that repeats it, on
${ledger.machine}. ${age()}

- ✓: continuous integration (\`.ci/run\`) runs this check on every change, some with fewer requests.
- "passes" without a date: there is no other result than that.
- A date and a commit: the result of one larger run.

\`npm run evidence\` repeats the runs of other commits than the present one, and \`npm run evidence -- WORD\` those whose
command contains the word; checks that need programs which \`.ci/run\` lacks run only so. Checks of several threads
[need Node.js 22.12](../CONTRIBUTING.md#larger-checks).

${sections.join('\n\n')}
`;
}

/** Says whether the product has changed since the results; in a clone without their commits, what the page has said. */
function age() {
  const commits = [...new Set(ledger.claims.flatMap(({ last }) => last?.commit ?? []))];
  const page = readFileSync(`${root}docs/evidence.md`, 'utf8').replaceAll(/\s+/g, ' ');
  if (commits.some((commit) => git('cat-file', '-e', `${commit}^{commit}`).status !== 0))
    return /(\*\*The product has changed|The product is that) .*?(?= - ✓)/.exec(page)?.[0] ?? '';
  const past = commits.filter(hasChanged);
  if (past.length === 0) return 'The product is that of these commits.';
  return `**The product has changed since ${past.join(' and ')}**, as \`git log ${past[0]}.. -- ${product.join(' ')}\` lists.`;
}
