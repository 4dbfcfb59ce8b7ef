// Writes the facts of docs/configuration.md, the default and the range of each variable in packages/server/src/process/config.ts,
// and from that page the one of contract-server.
import { readFileSync } from 'node:fs';
import { variables } from '../../packages/server/dist/process/config.js';
import { service } from '../../dist/service.js';
import { writeGenerated } from '../lib/generated.js';

const source = 'docs/configuration.md';
const text = readFileSync(new URL(`../../${source}`, import.meta.url), 'utf8');
const pattern = /^- `([A-Z_]+)`(?:\s\([^)]*\))?:/gm;
const described = [...text.matchAll(pattern)].map(([, name]) => name);
if (described.join() !== Object.keys(variables).join())
  throw new Error(`${source} does not describe the variables of config.ts, in their order`);

await writeGenerated(source, page(service.databaseUrl));
await writeGenerated(`packages/server/${source}`, page(undefined));

/**
 * The page of a service, or of any.
 * @param {string | undefined} url - The default of DATABASE_URL.
 */
function page(url) {
  return text.replace(pattern, (_, name) => {
    const { read, default: fixed } = variables[/** @type {keyof typeof variables} */ (name)];
    const value = String((name === 'DATABASE_URL' ? url : fixed) ?? '');
    const facts = [value && `default \`${value}\``, rangeOf(read)].filter(Boolean).join(', ');
    return `- \`${name}\`${facts && ` (${facts})`}:`;
  });
}

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
