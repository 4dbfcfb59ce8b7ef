// The generators for TypeScript. All of them need an option that makes bigint of int64, and a serializer for bigint.
import { createRequire } from 'node:module';
import ts from 'typescript';
import {
  buildTypeScript,
  buildWithOwnPackages,
  command,
  contract,
  generate,
  generateOnNode,
  linkOwnPackages,
  openapiGenerator,
} from './build.js';

const heyApi = '0.94.0';
const orval = '8.38.0';
const { version: openapiFetch } = createRequire(import.meta.url)('openapi-fetch/package.json');

const bigintOptions = ['--type-mappings=long=bigint', '--language-specific-primitives=bigint'];
const onCurrentNode = () =>
  /** @type {[string, ...string[]]} */ (['npm', 'exec', '--', 'node', 'round-trip.mjs']);

/** @type {Record<string, import('./build.js').Client>} */
export const clients = {
  orval: {
    tool: `orval ${orval}`,
    language: 'TypeScript',
    needs: ['npm'],
    async build(folder) {
      await generateOnNode(folder, [`orval@${orval}`], 'orval', '--config', 'orval.config.mjs');
      await buildTypeScript(folder);
    },
    run: onCurrentNode,
    program: 'round-trip.ts',
    shown: ['orval.config.mjs', 'fetcher.ts'],
    command: 'CONTRACT=openapi.yaml orval --config orval.config.mjs',
    set:
      'Set `override.useBigInt` in the configuration, and add the line for exact ids. A `mutator` adds the address ' +
      'and the token to each request.',
    errors: 'The `status` of the result selects the type of its `data`, which is an `Error`.',
  },
  'typescript-fetch': {
    tool: `openapi-generator ${openapiGenerator}, \`typescript-fetch\``,
    language: 'TypeScript',
    needs: ['java', 'mvn'],
    async build(folder) {
      await generate('typescript-fetch', folder, 'client', ...bigintOptions);
      await buildWithOwnPackages(folder);
    },
    run: () => ['node', 'round-trip.mjs'],
    program: 'round-trip.ts',
    shown: ['exact-fetch.ts'],
    command: `openapi-generator-cli generate -i openapi.yaml -g typescript-fetch -o client ${bigintOptions.join(' ')}`,
    set:
      'Without the mapping, ids beyond 2^53 are rounded. Pass `basePath`, `accessToken` and `exactFetch` as `fetchApi` ' +
      'to `Configuration`. Instead of `exactFetch`, the line for exact ids suffices where `JSON.rawJSON` exists.',
    errors:
      '`ResponseError` with the status; `ModelErrorFromJSON` parses the body (`Error` is renamed to `ModelError`).',
  },
  'hey-api': {
    tool: `@hey-api/openapi-ts ${heyApi}`,
    language: 'TypeScript',
    needs: ['npx'],
    async build(folder) {
      const packages = ['-p', `@hey-api/openapi-ts@${heyApi}`, '-p', `typescript@${ts.version}`];
      const plugins = ['@hey-api/typescript', '@hey-api/sdk', '@hey-api/transformers'];
      const options = ['-i', contract, '-o', 'client', '-c', '@hey-api/client-fetch', '-p', ...plugins];
      await command(folder, 'npx', '--yes', ...packages, 'openapi-ts', ...options);
      await buildWithOwnPackages(folder);
    },
    run: () => ['node', 'round-trip.mjs'],
    program: 'round-trip.ts',
    command:
      'openapi-ts -i openapi.yaml -o client -c @hey-api/client-fetch ' +
      '-p @hey-api/typescript @hey-api/sdk @hey-api/transformers',
    set:
      'The plugin `@hey-api/transformers` maps int64 to bigint. Set `baseUrl`, `auth`, and `exactBody` as ' +
      '`bodySerializer`: the default one sends a bigint as a string, which returns 400.',
    errors: '`error` of the result is an `Error`; the status is in the response.',
  },
  'openapi-fetch': {
    tool: `openapi-typescript with openapi-fetch ${openapiFetch}`,
    language: 'TypeScript',
    needs: [],
    async build(folder) {
      await linkOwnPackages(folder);
      await command(folder, 'node', 'generate.mjs', { CONTRACT: contract });
      await buildWithOwnPackages(folder);
    },
    run: () => ['node', 'round-trip.mjs'],
    program: 'round-trip.ts',
    shown: ['generate.mjs'],
    command: 'CONTRACT=openapi.yaml node generate.mjs',
    set:
      'The `transform` in the program below maps int64 to bigint. Set the header `authorization`, and `exactBody` as ' +
      '`bodySerializer`.',
    errors: '`error` of the result is an `Error`; the status is in the response.',
  },
};
