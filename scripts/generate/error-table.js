// Writes the table of error codes in docs/api.md from the catalogue; a test says when it is out of date.
import { readFileSync, writeFileSync } from 'node:fs';
import { catalogue } from '../../dist/errors.js';

const guide = new URL('../../docs/api.md', import.meta.url);
const rows = Object.entries(catalogue).map(
  ([name, { code, message }]) => `| ${code} | ${Math.floor(code / 100)} | \`${name}\` | ${message} |`,
);
const table = ['| `error` | status | name | meaning |', '|---|---|---|---|', ...rows].join('\n');
const text = readFileSync(guide, 'utf8');
writeFileSync(
  guide,
  text.replace(
    /(<!-- error codes: .* -->\n)[^]*(<!-- end of error codes -->)/,
    (_, start, end) => `${start}\n${table}\n\n${end}`,
  ),
);
