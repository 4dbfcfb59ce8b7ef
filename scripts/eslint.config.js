// Lint: TypeScript's strict rules, and the direction of imports that DESIGN.md describes.
import { join } from 'node:path';
import eslint from '@eslint/js';
import tseslint from 'typescript-eslint';

/**
 * A module of the server, and what its files may not import.
 * @param {string} module - A folder or a file, below packages/server/src/.
 * @param {string} others - A regular expression of the modules, below packages/server/src/, that it may not know.
 * @param {string} message
 * @returns {import('typescript-eslint').ConfigArray[number]}
 */
const mayNotImport = (module, others, message) => ({
  files: [`packages/server/src/${module}`],
  rules: {
    'no-restricted-imports': ['error', { patterns: [{ regex: `^\\.{1,2}/(.*/)?(${others})`, message }] }],
  },
});
/** Only these read the configuration, and put the rest together. */
const processFiles = 'start\\.js|index\\.js|cli/|testing\\.js|testing/|process/';
/** The storage, but for its interface, and for what an access token is and how long it is kept. */
const engines = 'storage/(?!core/(interface|access-token|token-row)\\.js)';

export default tseslint.config(
  {
    ignores: [
      '**/dist',
      '**/dist-test',
      '.tap',
      '**/.venv',
      '**/*.gen.ts',
      'packages/server/templates',
      'scripts/clients/*/**',
    ],
  },
  eslint.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: join(import.meta.dirname, '..') },
    },
    rules: {
      // A checked index that is known to be there is asserted; the alternative is dead code.
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
    },
  },
  {
    files: ['packages/server/src/storage/**'],
    rules: { '@typescript-eslint/no-non-null-assertion': 'error' },
  },
  {
    // The others open files before SQLite does, when the last connection has been closed, or in commands.
    files: ['packages/server/src/storage/{open.ts,sqlite/**}'],
    ignores: ['packages/server/src/storage/sqlite/{backup,database,file/lock,file/write-ahead-log}.ts'],
    rules: {
      '@typescript-eslint/no-restricted-imports': [
        'error',
        {
          paths: [
            {
              name: 'node:fs',
              allowImportNames: [
                'existsSync',
                'readdirSync',
                'readlinkSync',
                'realpathSync',
                'rmSync',
                'statSync',
                'statfsSync',
              ],
              message:
                'Closing a descriptor of a file removes the locks that SQLite has on it in this process.',
            },
          ],
          patterns: ['fs', 'fs/*', 'node:fs/*'],
        },
      ],
    },
  },
  {
    files: ['**/test/**/*.ts'],
    // tap's assertions are functions to call, and its tests are started, not awaited; a test without a call to wait for is
    // asynchronous all the same.
    rules: {
      '@typescript-eslint/no-floating-promises': 'off',
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/prefer-promise-reject-errors': 'off',
      '@typescript-eslint/unbound-method': 'off',
    },
  },
  {
    files: ['**/*.js', '**/*.cjs'],
    rules: {
      // The compiler checks them, except in scripts/bench/peers, which fail at the first run.
      'no-undef': 'off',
    },
  },
  {
    files: ['examples/*/**/*.ts'],
    rules: {
      'no-restricted-imports': [
        'error',
        { patterns: [{ regex: '/packages/', message: 'A service imports contract-server by its name.' }] },
      ],
    },
  },
  mayNotImport(
    'base/**',
    `${processFiles}|contract/|http/|observability/|service/|storage/`,
    'What all rooms may import knows none of them.',
  ),
  mayNotImport(
    'contract/**',
    `${processFiles}|http/|storage/|observability/|service/`,
    'The contract knows the base alone.',
  ),
  mayNotImport(
    'service/**',
    `${processFiles}|http/|${engines}|observability/`,
    'What a service is and gets knows the interface of the storage, the contract and the base alone.',
  ),
  mayNotImport(
    'storage/**',
    `${processFiles}|errors\\.js|http/|observability/|contract/|service/`,
    'The storage knows nothing of what is built on it.',
  ),
  mayNotImport('storage/core/interface.ts', '.', 'The interface of the storage imports no project code.'),
  ...[
    ['headers', 'routing/|connection/|admission/|security/|request/|response/|pages/'],
    ['connection', 'routing/|admission/|security/|request/|response/|pages/'],
    ['admission', 'routing/|security/|request/|response/|pages/'],
    ['security', 'routing/|connection/|admission/|request/|response/|pages/'],
    ['request', 'routing/|security/|response/|pages/'],
    ['response', 'routing/|connection/|security/|request/|pages/'],
    ['pages', 'routing/|connection/|admission/|security/|request/'],
    ['routing', 'pages/'],
  ].map(([module, others]) =>
    mayNotImport(
      `http/${module}/**`,
      `${processFiles}|${engines}|observability/|${others}`,
      'HTTP does not know what it serves, and its modules know only those before them (DESIGN.md).',
    ),
  ),
  mayNotImport(
    'observability/**',
    `${processFiles}|${engines}`,
    'What watches the service does not know what it does.',
  ),
  {
    files: ['packages/client/src/**'],
    rules: { '@typescript-eslint/no-restricted-imports': ['error', { patterns: ['node:*'] }] },
  },
  mayNotImport(
    'process/app.ts',
    `${engines}|config\\.js|start\\.js|index\\.js`,
    'The app is given its service and its storage.',
  ),
);
