// The text of docs/clients.md, from what the clients have shown.
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { root } from './build.js';

/**
 * What a client has shown.
 * @typedef {{
 *   name: string;
 *   client: import('./build.js').Client;
 *   result: { missing: string[]; compiles: boolean; exact: boolean; typed: boolean };
 * }} Row
 */

/**
 * Returns docs/clients.md.
 * @param {Row[]} rows
 * @returns {Promise<string>}
 */
export async function report(rows) {
  const lines = rows.map(tableLine);
  const notes = await Promise.all(rows.map(note));
  const exactBody = await readFile(join(root, 'scripts/clients/exact-body.ts'), 'utf8');
  const text = `<!-- Written by "npm run test:clients"; do not edit. -->

# Generated clients

For TypeScript and JavaScript, use plant-store-client: it needs only an address and a token, and retries lost requests.
See [api.md](api.md#typescript). For other languages, generate a client from [openapi.yaml](../openapi.yaml). This page
shows which generators work, and what to configure.

\`npm run test:clients\` generates each client, compiles it, and runs its program, which is shown below, against the
service. The program creates plants 2^53+1 (between existing plants 2^53 and 2^53+2) and 2^63-1, lists with a limit, and
deletes; a part that is not shown provokes four errors: 400, 401, 403 and 404. The table shows the results with the
configuration that is described below; with the defaults, no client for TypeScript has exact ids. None of these clients
retries: [the guide](api.md#retries) says what to repeat, and what the repetition may return. npm has openapi-generator as
@openapitools/openapi-generator-cli, which needs Java.

| generator | language | compiles | exact ids | typed errors |
|---|---|---|---|---|
${lines.join('\n')}

The clients for PHP and Ruby run with the libraries of Debian's packages php-guzzlehttp-guzzle and ruby-typhoeus, and the
client for Kotlin is compiled by Maven. Orval runs on Node.js 22.

## Exact ids in TypeScript

An id beyond 2^53 needs a \`bigint\`, which \`JSON.stringify\` refuses. The line for exact ids, which must run once before the
first request, lets it write all digits:

\`\`\`ts
BigInt.prototype.toJSON = function () { return JSON.rawJSON(this.toString()); };
\`\`\`

\`JSON.rawJSON\` exists in Node.js 22 and later, but not in Node.js 20. TypeScript has no type for it and needs a
declaration; in a file that is a module, declare both in \`declare global\`:

\`\`\`ts
interface JSON { rawJSON(text: string): unknown }
interface BigInt { toJSON(): unknown }
\`\`\`

On Node.js 20, use plant-store-client, or a generator below whose setup does not need the line. Some of their clients
accept a function that writes the body:

${listing('exact-body.ts', exactBody)}

These generators cannot send such ids, because they map int64 to \`number\` and have no option for \`bigint\`:
oazapfts 7.5, openapi-typescript-codegen 0.31, typed-openapi 2.2 and openapi-zod-client 1.18.

## How to generate and configure each client

${notes.join('\n\n')}
`;
  const file = join(root, 'docs/clients.md');
  return format(text, { ...(await resolveConfig(file)), proseWrap: 'always', filepath: file });
}

/** @param {Row} row */
function tableLine({ client: { tool, language }, result: { missing, compiles, exact, typed } }) {
  const verdicts =
    missing.length > 0
      ? Array(3).fill(`not run: no ${missing.join(', ')}`)
      : [compiles, exact, typed].map((good) => (good ? 'yes' : '**no**'));
  return `| ${[tool, language, ...verdicts].join(' | ')} |`;
}

/** How to generate and use a client. @param {Row} row */
async function note({ name, client: { tool, command, set, errors, program, shown = [] } }) {
  const listings = [...shown, program].map(async (file) =>
    listing(file, await readFile(join(root, 'scripts/clients', name, file), 'utf8')),
  );
  const text = `### ${tool}\n\n\`${command}\`\n\n${set}\n\nErrors: ${errors}`;
  return [text, ...(await Promise.all(listings))].join('\n\n');
}

/** The languages of programs by the ends of their names. @type {Record<string, string>} */
const languages = { '.py': 'python', '.kt': 'kotlin', '.rs': 'rust', '.rb': 'ruby' };

/**
 * Returns a file as a block of code, without the comment that it begins with, and without what only the round trip
 * needs: the lines between the comments "docs: hide" and "docs: show".
 * @param {string} name
 * @param {string} code
 */
function listing(name, code) {
  const end = extname(name);
  const comment = ['.py', '.rb'].includes(end) ? '#' : '//';
  const text = code
    .replace(/^(<\?php\n)?((\/\/|#) .*\n)+/, '$1')
    .replace(/\n*[\t ]*(\/\/|#) docs: hide\n[^]*?(\/\/|#) docs: show\n/g, '\n')
    .replace(/\n{3,}/g, '\n\n');
  return `\`\`\`${languages[end] ?? end.slice(1).replace('mjs', 'js')}\n${comment} ${name}\n${text.trimEnd()}\n\`\`\``;
}
