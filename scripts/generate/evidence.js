// Writes docs/evidence.md from docs/evidence.json, which has each claim, the command that checks it, and what the command
// last showed.
//
//   node scripts/generate/evidence.js            writes the page
//   node scripts/generate/evidence.js --check    exits with 1 if the page is out of date
//   node scripts/generate/evidence.js WORD       runs the commands that contain the word, records what they show, and writes the page
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { availableParallelism, cpus, release } from 'node:os';
import { fileURLToPath } from 'node:url';
import { check, writeGenerated } from '../lib/generated.js';

/**
 * What a command has shown.
 * @typedef {object} Result
 * @property {string} date
 * @property {string} [commit] - The oldest results lack it.
 * @property {string} [machine]
 * @property {string} [node]
 * @property {number} [status] - The exit status.
 * @property {string} shown
 */
/**
 * @typedef {object} Claim
 * @property {string} topic
 * @property {string} claim - It begins with the promise of README.md, in bold, if it is one.
 * @property {string} command - `npm …`, `node …` or `scripts/…`, which is run and recorded, or a link to the steps.
 * @property {true} [always] - Whether .ci/run checks it on every change.
 * @property {string} [shows] - A pattern of the parts of what the command shows that the page has; all of it by default.
 * @property {string} [says] - What the page says instead, with `$1` for the first of these parts, and so on.
 * @property {Result} [last]
 */

const root = fileURLToPath(new URL('../..', import.meta.url));
const ledger = 'docs/evidence.json';
/** @type {Claim[]} */
const claims = JSON.parse(await readFile(`${root}${ledger}`, 'utf8'));

const [word] = process.argv.slice(2);
if (word !== undefined && !check) await record(claims.filter(({ command }) => command.includes(word)));
await writeGenerated('docs/evidence.md', render());

/** Runs the commands, and keeps what they show. @param {Claim[]} chosen */
async function record(chosen) {
  if (git('status', '--porcelain').stdout !== '') throw new Error('commit first: a result names its commit');
  for (const claim of chosen) {
    const child = spawn('bash', ['-c', claim.command], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', (/** @type {Buffer} */ chunk) => {
      process.stdout.write(chunk);
      output += chunk.toString();
    });
    const [status] = await once(child, 'close');
    // Without the lines of npm, the details of a line before, and the "yes" before what holds.
    const lines = output.split('\n').filter((line) => /^[^>\s]/.test(line));
    claim.last = {
      date: new Date().toISOString().slice(0, 10),
      commit: git('rev-parse', '--short=10', 'HEAD').stdout.trim(),
      machine: `${availableParallelism()} cores (${cpus()[0]?.model.trim()}), Linux ${release().split('-')[0]}`,
      node: process.versions.node,
      status: Number(status),
      shown: lines
        .map((line) => line.replace(/^yes /, '').trim())
        .slice(-14)
        .join('; ')
        .replace(/\s+/g, ' ')
        .slice(-1_000),
    };
    if (status !== 0) process.exitCode = 1;
    await writeGenerated(ledger, JSON.stringify(claims, undefined, 2));
  }
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
  const { date, commit, status = 0, shown = 'passes' } = last ?? {};
  const parts = shows === undefined ? undefined : shown.match(new RegExp(shows, 'g'));
  const told =
    parts && says?.replace(/\$(\d)/g, (_, /** @type {string} */ part) => parts[Number(part) - 1] ?? '?');
  const result = `${status === 0 ? '' : `**failed (${status})**: `}${told ?? parts?.join('; ') ?? excerpt(shown)}`;
  const when = [always && '✓', date, commit].filter(Boolean).join(' ');
  // CONTRIBUTING.md says how to run a command that needs a newer Node.js.
  const run = command.replace('npx --package node@24 -- ', '');
  return `| ${[claim, result, when, run.startsWith('[') ? run : `\`${run}\``].join(' | ')} |`;
}

/** Returns the page. */
function render() {
  const topics = [...new Set(claims.map(({ topic }) => topic))];
  const sections = topics.map((topic) => {
    const rows = claims.filter((claim) => claim.topic === topic).map(row);
    return `## ${topic}\n\n| what | result | when | command |\n|---|---|---|---|\n${rows.join('\n')}`;
  });
  return `<!-- Written by "node scripts/generate/evidence.js" from docs/evidence.json; do not edit. -->

# Evidence

What was checked, the result, and the command that repeats it. ✓: \`.ci/run\`, or .github/workflows/ci.yaml for the versions
of Node.js, repeats it on each change, partly with fewer requests. The rest was run by hand, on 2 cores with other work, on
the day or commit shown; \`npm run evidence -- WORD\` renews the results whose command contains the word. Several threads
[need Node.js 22.12](../CONTRIBUTING.md#larger-checks).

${sections.join('\n\n')}
`;
}
