// Writes the facts of the page of settings: the default and the range of each variable in packages/server/src/process/config.ts.
import { readFileSync } from 'node:fs';
import { variables } from '../../packages/server/dist/process/config.js';
import { writeGenerated } from '../lib/generated.js';

const source = 'packages/server/docs/configuration.md';
const text = readFileSync(new URL(`../../${source}`, import.meta.url), 'utf8');
const pattern = /^- `([A-Z_]+)`(?:\s\([^)]*\))?:/gm;
const described = [...text.matchAll(pattern)].map(([, name]) => name);
if (described.join() !== Object.keys(variables).join())
  throw new Error(`${source} does not describe the variables of config.ts, in their order`);

const page = text.replace(pattern, (_, name) => {
  const { read, default: value = '' } = variables[/** @type {keyof typeof variables} */ (name)];
  const facts = [String(value) && `default \`${String(value)}\``, rangeOf(read)].filter(Boolean).join(', ');
  return `- \`${name}\`${facts && ` (${facts})`}:`;
});
await writeGenerated(source, page);

/**
 * The numbers that a variable accepts, as its own refusal of any text says; empty for one that is no number.
 * @param {(text: string) => unknown} read
 */
function rangeOf(read) {
  try {
    read('no number');
  } catch (error) {
    const [, min = '', max = ''] = /from (\d+) to (\d+)$/.exec(String(error)) ?? [];
    return min && `${min} to ${max}`;
  }
  return '';
}
