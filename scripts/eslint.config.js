// Lint: TypeScript's strict rules, and what some folders may not import.
import { join } from 'node:path';
import eslint from '@eslint/js';
import tseslint from 'typescript-eslint';

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
      // An index that is known to be there is asserted; the alternative is dead code.
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
    },
  },
  {
    // The others open files before SQLite does, when the last connection has been closed, or in commands: closing a
    // descriptor of a file removes the locks that SQLite has on it in this process.
    files: ['packages/server/src/storage/{open.ts,sqlite/**}'],
    ignores: ['packages/server/src/storage/sqlite/{copy,files,lock,restore}.ts'],
    rules: {
      '@typescript-eslint/no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              regex: '^(node:)?fs',
              importNamePattern: '^(open(?!dir)|read(?!dir|link)|write|copy|append|create)',
            },
          ],
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
    // So that a change inside the server breaks no test. What no door shows is imported by support, for all tests.
    files: ['**/test/**/*.ts'],
    ignores: ['packages/server/test/support/**'],
    rules: {
      '@typescript-eslint/no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              regex:
                'dist/(?!storage/(open|core/interface)\\.js)(base|cli|contract|http|observability|process|service|storage|testing)/',
              message:
                'Tests import the doors of the server: index, start, testing, and the interface of its storage.',
            },
          ],
        },
      ],
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
    files: ['packages/client/src/**'],
    rules: { '@typescript-eslint/no-restricted-imports': ['error', { patterns: ['node:*'] }] },
  },
);
