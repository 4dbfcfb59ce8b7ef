// Writes docs/evidence.md from docs/evidence.json, which has each claim, the command that checks it, and what the command
// showed for one commit.
//
//   node scripts/generate/evidence.js               writes the page
//   node scripts/generate/evidence.js --check       exits with 1 if the page is out of date
//   node scripts/generate/evidence.js --run         runs all commands for the present commit, records what they show, and
//                                                   writes the page; those that need more programs than .ci/run are left out
//   node scripts/generate/evidence.js --run WORD    runs the commands that contain the word, for the commit of the others
//   node scripts/generate/evidence.js --release     exits with 1 if the product has changed since that commit
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { availableParallelism, cpus, release } from 'node:os';
import { fileURLToPath } from 'node:url';
import { writeGenerated } from '../lib/generated.js';

/**
 * What a command has shown.
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
 * @property {string} [says] - What the page says instead, with `$1` for the first of these parts, and so on.
 * @property {Result} [last] - Without it, the page has the claim only if .ci/run checks it.
 */

const root = fileURLToPath(new URL('../..', import.meta.url));
const file = 'docs/evidence.json';
/** @type {{ commit: string, machine: string, claims: Claim[] }} */
const ledger = JSON.parse(await readFile(`${root}${file}`, 'utf8'));
/** What the results depend on; they hold for a commit that differs in nothing of this. */
const product = ['package-lock.json', 'openapi.yaml', 'src', 'packages/client/src', 'packages/server/src'];

const [option, word] = process.argv.slice(2);
if (option === '--run') await run();
if (option === '--release' && isChanged()) {
  console.error(
    `The product has changed since ${ledger.commit}: run "npm run evidence", and commit what it writes.`,
  );
  process.exitCode = 1;
}
await writeGenerated('docs/evidence.md', render());

/** Runs the commands, and keeps what they show. */
async function run() {
  if (git('status', '--porcelain').stdout !== '') throw new Error('commit first: the results name a commit');
  if (word === undefined) {
    ledger.commit = git('rev-parse', '--short=10', 'HEAD').stdout.trim();
    ledger.machine = `${availableParallelism()} cores (${cpus()[0]?.model.trim()}), Linux ${release().split('-')[0]}`;
    for (const claim of ledger.claims) delete claim.last;
  } else if (isChanged()) {
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

/** Whether the product has changed since the results. */
function isChanged() {
  return git('diff', '--quiet', ledger.commit, 'HEAD', '--', ...product).status !== 0;
}

/** @param {string[]} args */
function git(...args) {
  return spawnSync('git', args, { cwd: root, encoding: 'utf8' });
}

/** What was shown, cut after a line. @param {string} shown */
function excerpt(shown) {
  return shown.length <= 120 ? shown : `${shown.slice(0, 120)}…`;
}

/** A row of the table. @param {Claim} claim */
function row({ claim, command, always, shows, says, last }) {
  const { date = '', status = 0, shown = 'passes' } = last ?? {};
  const parts = shows === undefined ? undefined : shown.match(new RegExp(shows, 'g'));
  const told =
    parts && says?.replace(/\$(\d)/g, (_, /** @type {string} */ part) => parts[Number(part) - 1] ?? '?');
  const result = `${status === 0 ? '' : `**failed (${status})**: `}${told ?? parts?.join('; ') ?? excerpt(shown)}`;
  // The introduction says how to run a command that needs a newer Node.js.
  const shortened = command.replace('npx --package node@24 -- ', '');
  const separated = result.replace(/\b\d{4,}\b/g, (digits) => Number(digits).toLocaleString('en'));
  return `| ${[claim, separated, always ? '✓' : date, `\`${shortened}\``].join(' | ')} |`;
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

What was checked, the result, and the command that repeats it, for commit ${ledger.commit} on ${ledger.machine}. Checks that
were not run for this commit are left out. ✓: \`.ci/run\` repeats it on each change, partly with fewer requests; "passes"
means only this. \`npm run evidence\` renews what needs no other programs than \`.ci/run\`, and \`npm run evidence -- WORD\` the results whose
command contains the word. Several threads [need Node.js 22.12](../CONTRIBUTING.md#larger-checks).

${sections.join('\n\n')}
`;
}
