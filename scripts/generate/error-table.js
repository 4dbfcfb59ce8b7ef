// Writes the list of error codes in docs/api.md from the code; a test fails if the list is out of date.
import { readFileSync, writeFileSync } from 'node:fs';
import { allErrors } from '../../dist/plants/errors.js';

const guide = new URL('../../docs/api.md', import.meta.url);
const list = Object.entries(allErrors)
  .sort(([, a], [, b]) => a.code - b.code)
  .map(([name, { code, message }]) => `- **${code}** \`${name}\`: ${message}`)
  .join('\n');
const text = readFileSync(guide, 'utf8');
writeFileSync(
  guide,
  text.replace(
    /(<!-- error codes: .* -->\n)[^]*(<!-- end of error codes -->)/,
    (_, start, end) => `${start}\n${list}\n\n${end}`,
  ),
);
