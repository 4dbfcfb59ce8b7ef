// The generators for TypeScript. All of them need an option that makes bigint of int64, and a serializer for bigint.
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
const kubb = '4.39.3';
const swaggerTypescriptApi = '13.13.0';

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
  kubb: {
    tool: `kubb ${kubb}`,
    language: 'TypeScript',
    needs: ['npm'],
    async build(folder) {
      const packages = ['cli', 'core', 'plugin-oas', 'plugin-ts', 'plugin-client'];
      const versioned = packages.map((name) => `@kubb/${name}@${kubb}`);
      await generateOnNode(
        folder,
        [...versioned, 'axios@1'],
        'kubb',
        'generate',
        '--config',
        'kubb.config.mjs',
      );
      await buildTypeScript(folder);
    },
    run: onCurrentNode,
    program: 'round-trip.ts',
    shown: ['kubb.config.mjs'],
    command: 'CONTRACT=openapi.yaml kubb generate --config kubb.config.mjs',
    set:
      "Set plugin-ts's `integerType` to `bigint`, and add the line for exact ids. Set `baseURL` and `headers` with " +
      '`setConfig`. Use the `axios` client of plugin-client: its `fetch` client sends no JSON media type, which ' +
      'returns 400, and returns errors as if they were plants.',
    errors: '`AxiosError` with the status; the `data` of its response is an `Error`.',
  },
  'swagger-typescript-api': {
    tool: `swagger-typescript-api ${swaggerTypescriptApi}`,
    language: 'TypeScript',
    needs: ['npm'],
    async build(folder) {
      const argv = [
        '--path',
        contract,
        '--output',
        'client',
        '--name',
        'plants.ts',
        '--custom-config',
        'config.mjs',
      ];
      const packages = [`swagger-typescript-api@${swaggerTypescriptApi}`];
      await generateOnNode(folder, packages, 'swagger-typescript-api', 'generate', ...argv);
      await buildTypeScript(folder);
    },
    run: onCurrentNode,
    program: 'round-trip.ts',
    shown: ['config.mjs'],
    command: 'swagger-typescript-api generate --path openapi.yaml --custom-config config.mjs',
    set:
      'In `primitiveTypeConstructs` of the configuration, map the integer format `int64` to `bigint`, and add the line ' +
      "for exact ids. Set `baseUrl`, and in `baseApiParams` the header `authorization` and `format: 'json'`, without " +
      'which the errors of a delete are not parsed.',
    errors: 'The response is thrown, with the status; its `error` is an `Error`.',
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
    tool: 'openapi-typescript with openapi-fetch',
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
