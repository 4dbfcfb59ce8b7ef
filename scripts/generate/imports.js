// Checks that no source file, and no room of the server, imports itself through others or what it must not know, imports of
// types included; and draws into DESIGN.md which room of the server imports which: a new direction changes the drawing. With
// --check, only verifies that the drawing is current.
import { readFileSync } from 'node:fs';
import { cruise } from 'dependency-cruiser';
import { writeGenerated } from '../lib/generated.js';

const design = new URL('../../DESIGN.md', import.meta.url);
const source = 'packages/server/src/';
/** The room that all others may import. */
const common = 'base';

/** The imports that are forbidden within parts of the server, which the drawing does not show. */
const unknown = Object.entries({
  'base/': '(?!base/)',
  '(http|observability|service)/': 'storage/(?!core/(interface|tokens)\\.ts)',
  'process/app\\.ts': '(storage/(?!core/(interface|tokens)\\.ts)|process/config\\.ts|start\\.ts|index\\.ts)',
  'storage/': 'base/errors\\.ts',
  'storage/core/interface\\.ts': '',
}).map(([part, others]) => ({
  ...{ name: part, severity: /** @type {const} */ ('error') },
  from: { path: `^${source}${part}` },
  to: { path: `^${source}${others}` },
}));

const { output } = await cruise(['src', 'packages/server/src', 'packages/client/src'], {
  tsPreCompilationDeps: true,
  includeOnly: '^(src|packages/[a-z]+/src)/',
  validate: true,
  ruleSet: {
    forbidden: [{ name: 'cycle', severity: 'error', from: {}, to: { circular: true } }, ...unknown],
  },
});
if (typeof output === 'string') throw new Error(output);
for (const { from, to, cycle } of output.summary.violations) {
  console.error(
    cycle ? `${from} imports itself: ${cycle.map(({ name }) => name).join(', ')}` : `${from} imports ${to}`,
  );
  process.exitCode = 1;
}

/** The room of the server that has a file: a folder, those of http/ and of the storage apart, or one of the doors. */
const roomOf = (/** @type {string} */ file) =>
  /^((http|storage)\/[^/.]+(?=\/)|[^/.]+)/.exec(file.slice(source.length))?.[0] ?? '';
/** The rooms that each room imports. @type {Map<string, Set<string>>} */
const imports = new Map();
for (const { source: file, dependencies } of output.modules.filter((one) => one.source.startsWith(source))) {
  const room = roomOf(file);
  if (room === common) continue;
  const rooms = dependencies.map(({ resolved }) => roomOf(resolved));
  const known = imports.get(room) ?? new Set();
  imports.set(room, new Set([...known, ...rooms.filter((one) => one !== room && one !== common)]));
}

/** Whether one room imports another, through others. @param {string} from @param {string} to @param {string[]} [seen] */
function reaches(from, to, seen = []) {
  return [...(imports.get(from) ?? [])].some(
    /** @returns {boolean} */
    (next) => !seen.includes(next) && (next === to || reaches(next, to, [...seen, from, next])),
  );
}

for (const [room, all] of imports)
  for (const next of all)
    if (reaches(next, room)) {
      console.error(`${room}/ imports ${next}/, which imports it`);
      process.exitCode = 1;
    }

// An arrow that others imply is left out.
const arrows = [...imports].flatMap(([from, all]) =>
  [...all]
    .filter((to) => ![...all].some((other) => other !== to && !reaches(to, other) && reaches(other, to)))
    .map((to) => `  ${from} --> ${to}`),
);
const title = '  accTitle: Which folder of the server imports which';
const drawing = ['```mermaid', 'flowchart TD', title, ...arrows.sort(), '```'].join('\n');
const text = readFileSync(design, 'utf8').replace(/```mermaid\nflowchart TD\n[^]*?```/, drawing);
await writeGenerated('DESIGN.md', text);
