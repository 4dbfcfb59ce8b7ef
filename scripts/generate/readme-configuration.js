// Writes the table of environment variables into README.md from src/config.ts (as built in dist).
import { readFileSync, writeFileSync } from 'node:fs';
import { variables } from '../../dist/config.js';

const file = new URL('../../README.md', import.meta.url);
const rows = Object.entries(variables).map(
  ([name, { default: value, desc }]) =>
    `| \`${name}\` | ${String(value ?? '') && `\`${value}\``} | ${desc} |`,
);
const table = ['| variable | default | what it is |', '| --- | --- | --- |', ...rows].join('\n');
const text = readFileSync(file, 'utf8');
writeFileSync(
  file,
  text.replace(/(told at once\.\n\n)[^]*?(?=\n## A tour)/, (_, before) => `${before}${table}\n`),
);
