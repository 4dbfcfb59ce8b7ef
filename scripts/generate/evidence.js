// Writes docs/evidence.md from docs/evidence.json, which has each claim, the command that checks it, the code that it
// speaks of, and what the command last showed. The page says itself which results are older than that code.
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
 * @property {string} [commit] - The last one that changed the code of the claim; the oldest results lack it.
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
 * @property {true | string} [always] - Whether .ci/run checks it on every change; a string says how it differs there.
 * @property {string[]} about - The files and folders of the code.
 * @property {string} [engine]
 * @property {Result} [last]
 */

const root = fileURLToPath(new URL('../..', import.meta.url));
const ledger = 'docs/evidence.json';
/** @type {Claim[]} */
const claims = JSON.parse(await readFile(`${root}${ledger}`, 'utf8'));

/** The machines of the results, which the page numbers. @type {string[]} */
let machines = [];

const [word] = process.argv.slice(2);
if (word !== undefined && !check) await record(claims.filter(({ command }) => command.includes(word)));
const commits = claims.flatMap(({ last }) => last?.commit ?? []);
const hasAll = commits.every((commit) => git('cat-file', '-e', `${commit}^{commit}`).status === 0);
// Without the commits of the results, their age cannot be compared.
if (hasAll || !check) await writeGenerated('docs/evidence.md', render());

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
      commit: git('log', '-1', '--format=%h', '--abbrev=10', '--', ...claim.about).stdout.trim(),
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

/** What a result is worth for the code of today. @param {Claim} claim @param {Result} last */
function age({ about }, { commit }) {
  if (commit === undefined) return '**outdated**';
  const { status } = git('diff', '--quiet', commit, '--', ...about);
  if (status === 0) return commit;
  return `${commit}, ${status === 1 ? '**outdated**' : 'not in this clone'}`;
}

/** @param {Result} last @returns {string[]} */
function machineOf({ machine, node }) {
  return machine === undefined ? [] : [`${machine}, Node.js ${node}`];
}

/** The beginning of what was shown, at the end of a part. @param {string} shown */
function excerpt(shown) {
  const most = 240;
  return shown.length <= most ? shown : `${shown.slice(0, shown.lastIndexOf(';', most))}; …`;
}

/** @param {Claim} claim */
function line(claim) {
  const { claim: text, command, always, engine, last } = claim;
  const how = /^(npm|node|npx|scripts|\w+=|systemd)/.test(command) ? `\`${command}\`` : command;
  const when = always === undefined ? '' : ' on every change';
  const parts = [`- ${text}. ${how}${when}${typeof always === 'string' ? `, ${always}` : ''}`];
  if (last !== undefined) {
    const { date, status = 0, shown } = last;
    const on = machineOf(last).map((machine) => `machine ${machines.indexOf(machine) + 1}`);
    const where = [date, age(claim, last), engine, ...on].filter(Boolean).join(', ');
    parts.push(`${where}; ${status === 0 ? '' : `**failed (${status})**: `}${excerpt(shown)}`);
  }
  return parts.join('  \n  ');
}

/** Returns the page. */
function render() {
  machines = [...new Set(claims.flatMap(({ last }) => (last === undefined ? [] : machineOf(last))))];
  const topics = [...new Set(claims.map(({ topic }) => topic))];
  const sections = topics.map(
    (topic) =>
      `## ${topic}\n\n${claims
        .filter((claim) => claim.topic === topic)
        .map(line)
        .join('\n')}`,
  );
  return `<!-- Written by "node scripts/generate/evidence.js" from docs/evidence.json; do not edit. -->

# Evidence

What was checked, and what it showed when. \`.ci/run\` repeats what is checked "on every change";
the rest was run by hand on machines with other work, so times and rates are pessimistic. **Outdated**: the code of the
claim has changed since the commit that the result names; the oldest results are from before commits were recorded.
\`npm run evidence -- WORD\` repeats the commands that contain the word, in a checkout without changes, and records their
results; [evidence.json](evidence.json) has them in full.

${machines.map((machine, i) => `- Machine ${i + 1}: ${machine}`).join('\n')}

${sections.join('\n\n')}
`;
}
