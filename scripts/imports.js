// Checks that no source file imports itself through others, and that no room of the server (a folder, those of http/ and of
// the storage apart, or one of the doors) imports another room than base/ and those to which the arrows in DESIGN.md lead,
// types included.
import { readFileSync } from 'node:fs';
import { cruise } from 'dependency-cruiser';

const source = '^packages/server/src/';
const severity = /** @type {const} */ ('error');
const design = readFileSync(new URL('../DESIGN.md', import.meta.url), 'utf8');
const arrows = [...design.matchAll(/^ {2}(\S+) --> (\S+)$/gm)].map(([, from = '', to = '']) => ({
  from,
  to,
}));

/** All to which the arrows from a room lead. @param {string} room @returns {string[]} */
const reached = (room) =>
  arrows.filter(({ from }) => from === room).flatMap(({ to }) => [to, ...reached(to)]);

/** The files of a room. @param {string} room */
const filesOf = (room) => `${source}${room}${/^(http|storage)$/.test(room) ? '/[^/]+$' : '(/|\\.ts)'}`;

const rooms = new Set(arrows.flatMap(({ from, to }) => [from, to]));
const beyondArrows = [...rooms].map((room) => ({
  ...{ name: `beyond the arrows from ${room}`, severity },
  from: { path: filesOf(room) },
  to: { path: source, pathNot: [room, 'base', ...reached(room)].map(filesOf) },
}));

/** What parts of the server must not import, which the drawing does not show. */
const unknown = Object.entries({
  'base/': '(?!base/)',
  '(http|observability|service)/': 'storage/(?!core/(interface|tokens)\\.ts)',
}).map(([part, others]) => ({
  ...{ name: part, severity },
  from: { path: source + part },
  to: { path: source + others },
}));

const { output, exitCode } = await cruise(['src', 'packages/server/src', 'packages/client/src'], {
  tsPreCompilationDeps: true,
  includeOnly: '^(src|packages/[a-z]+/src)/',
  validate: true,
  ruleSet: {
    forbidden: [{ name: 'cycle', severity, from: {}, to: { circular: true } }, ...beyondArrows, ...unknown],
  },
  outputType: 'err',
});
console.log(output);
process.exitCode = exitCode;
