// Runs the official JSON-Schema-Test-Suite: each schema in a contract of OpenAPI 3.1, as a request and as a response.
//
//   npm run test:schemas -- FOLDER
//
// FOLDER is a checkout of github.com/json-schema-org/JSON-Schema-Test-Suite. What deviates from the suite is listed in
// schema-deviations.js, with the reason; the exit status is 1 if anything else deviates, or if an item does not any more.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { loadContract } from '../../packages/server/dist/contract/contract.js';
import { ContractError } from '../../packages/server/dist/contract/document/finding.js';
import { parseExactJson } from '../../packages/server/dist/contract/document/exact-json.js';
import {
  Compiler,
  createResponseValidator,
} from '../../packages/server/dist/http/request/validation/validation.js';
import { createSerializer } from '../../packages/server/dist/http/response/results.js';
import { deviations } from './schema-deviations.js';

/** @typedef {{ description: string, data: unknown, valid: boolean }} Case */
/** @typedef {{ description: string, schema: unknown, tests: Case[] }} Group */

/** How a schema is used. */
const uses = /** @type {const} */ (['request', 'response']);

/**
 * Rewrites references of a schema, which is not the whole document here.
 * @param {unknown} part
 * @returns {unknown}
 */
function placed(part) {
  if (Array.isArray(part)) return part.map(placed);
  if (typeof part !== 'object' || part === null) return part;
  const entries = Object.entries(part).map(([name, value]) => {
    if (name === 'enum' || name === 'const') return [name, value];
    const isLocal = name === '$ref' && typeof value === 'string' && /^#(\/|$)/.test(value);
    return [name, isLocal ? value.replace(/^#/, '#/components/schemas/Tested') : placed(value)];
  });
  return Object.fromEntries(entries.filter(([name]) => name !== '$schema'));
}

/**
 * Returns the function that says whether a value is accepted.
 * @param {unknown} schema
 * @param {(typeof uses)[number]} use
 * @returns {(data: unknown) => boolean}
 */
function accepting(schema, use) {
  const content = { 'application/json': { schema: { $ref: '#/components/schemas/Tested' } } };
  const ok = { description: 'OK', ...(use === 'response' && { content }) };
  const requestBody = use === 'request' ? { requestBody: { content } } : {};
  const document = {
    openapi: '3.1.0',
    info: { title: 'Test', version: '1' },
    security: [],
    paths: { '/': { post: { operationId: 'post', ...requestBody, responses: { 200: ok } } } },
    components: { schemas: { Tested: placed(schema) } },
  };
  const [operation] = loadContract(Buffer.from(JSON.stringify(document))).operations;
  const compiler = new Compiler();
  if (use === 'request') {
    const [body] = operation?.body?.contents ?? [];
    if (body === undefined) throw new Error('the contract has no body');
    const compiled = compiler.compile(body.schema, 'json');
    return (data) => compiled.read(parseExactJson(JSON.stringify(data))).faults.length === 0;
  }
  const body = operation?.results[0]?.content;
  if (!body) throw new Error('the contract has no response');
  const serialize = createSerializer(body.schema, {
    operationId: 'post',
    validatorOf: (one) => createResponseValidator(compiler, one),
  });
  return (data) => {
    try {
      return serialize(data) === JSON.stringify(data);
    } catch {
      return false;
    }
  };
}

/**
 * Returns what deviates in a group: the schema is refused, or some of its tests fail.
 * @param {Group} group
 * @param {(typeof uses)[number]} use
 * @returns {string[]}
 */
function deviationsOf({ schema, tests }, use) {
  try {
    const accepts = accepting(schema, use);
    return tests.filter(({ data, valid }) => accepts(data) !== valid).map(({ description }) => description);
  } catch (error) {
    if (!(error instanceof ContractError)) throw error;
    return [`refused: ${error.faults.map(({ message }) => message).join('; ')}`];
  }
}

const page = (
  await readFile(new URL('../../packages/server/docs/contract.md', import.meta.url), 'utf8')
).replaceAll(/\s+/g, ' ');
for (const { line } of deviations)
  if (!page.includes(line)) throw new Error(`packages/server/docs/contract.md does not say: ${line}`);
const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('Name the folder of the suite: npm run test:schemas -- FOLDER');
const suite = join(folder, 'tests', 'draft2020-12');
const files = (await readdir(suite)).filter((name) => name.endsWith('.json')).sort();
const counts = { groups: 0, tests: 0, deviations: 0, unlisted: 0 };
const unused = new Set(deviations);
for (const file of files) {
  const groups = /** @type {Group[]} */ (JSON.parse(await readFile(join(suite, file), 'utf8')));
  for (const group of groups) {
    for (const use of uses) {
      counts.groups++;
      counts.tests += group.tests.length;
      for (const what of deviationsOf(group, use)) {
        const deviation = `${file} ${use}: ${group.description}: ${what}`;
        counts.deviations++;
        const listed = deviations.filter(({ pattern }) => pattern.test(deviation));
        for (const one of listed) unused.delete(one);
        if (listed.length > 0) continue;
        counts.unlisted++;
        console.log(`Deviates: ${deviation}`);
      }
    }
  }
}
for (const { pattern } of unused) console.log(`Does not deviate any more: ${pattern.source}`);
console.log(JSON.stringify(counts));
if (counts.unlisted + unused.size > 0) process.exitCode = 1;
