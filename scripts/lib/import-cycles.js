// An ESLint rule: no file imports itself through others. Unlike the rules of plugins, it also follows imports of types.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import ts from 'typescript';

/** @type {Map<string, string[]>} */
const known = new Map();

/** The files of this project that a file imports. @param {string} file */
function importsOf(file) {
  const imports =
    known.get(file) ??
    ts
      .preProcessFile(readFileSync(file, 'utf8'))
      .importedFiles.filter(({ fileName }) => fileName.startsWith('.'))
      .map(({ fileName }) => resolve(dirname(file), fileName.replace(/\.js$/, '.ts')))
      .filter((imported) => existsSync(imported));
  known.set(file, imports);
  return imports;
}

/**
 * The files through which one file imports another, both included; empty if it does not.
 * @param {string} from
 * @param {string} to
 * @param {Set<string>} seen
 * @returns {string[]}
 */
function wayBetween(from, to, seen = new Set()) {
  if (from === to) return [to];
  if (seen.has(from)) return [];
  seen.add(from);
  for (const imported of importsOf(from)) {
    const way = wayBetween(imported, to, seen);
    if (way.length > 0) return [from, ...way];
  }
  return [];
}

/** @type {import('eslint').Rule.RuleModule} */
export const noImportCycles = {
  meta: { type: 'problem', schema: [], messages: { cycle: 'This file imports itself: {{way}}.' } },
  create: (context) => ({
    Program(node) {
      for (const imported of importsOf(context.filename)) {
        const way = wayBetween(imported, context.filename).map((file) => relative(context.cwd, file));
        if (way.length > 0) context.report({ node, messageId: 'cycle', data: { way: way.join(', ') } });
      }
    },
  }),
};
