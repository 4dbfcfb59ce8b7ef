// Lint: TypeScript's strict rules, and the direction of imports that DESIGN.md tells.
import eslint from '@eslint/js';
import tseslint from 'typescript-eslint';

/**
 * Files may not import from the given folders and modules.
 * @param {string[]} files
 * @param {string[]} patterns
 * @param {string} message
 * @returns {import('typescript-eslint').ConfigArray[number]}
 */
const mayNotImport = (files, patterns, message) => ({
  files,
  rules: { 'no-restricted-imports': ['error', { patterns: [{ group: patterns, message }] }] },
});

export default tseslint.config(
  { ignores: ['dist', '.tap', '**/.venv', '**/*.gen.ts', 'scripts/clients'] },
  eslint.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      // A checked index that is known to be there is told so; the alternative is dead code.
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
    },
  },
  {
    files: ['test/**/*.ts'],
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
    files: ['**/*.js'],
    languageOptions: {
      globals: Object.fromEntries(
        [
          'AbortSignal',
          'Buffer',
          'URL',
          'clearTimeout',
          'console',
          'fetch',
          'performance',
          'process',
          'setTimeout',
        ].map((name) => [name, 'readonly']),
      ),
    },
  },
  mayNotImport(
    ['src/domain.ts', 'src/errors.ts'],
    ['./*', '!./contract', '!./contract/types.gen.js'],
    'The domain and the errors know nothing of ours but the generated types.',
  ),
  mayNotImport(
    ['src/storage/**'],
    ['../*', '!../domain.js', '!../version.js'],
    'The storage knows the domain alone.',
  ),
  mayNotImport(
    ['src/http/**', 'src/contract/**'],
    ['../storage/*', '../config.js', '../main.js', '../cli.js', '../app.js'],
    'HTTP knows the domain, the errors and the contract alone.',
  ),
  mayNotImport(
    ['src/client/**'],
    ['node:*', '../*', '!../contract', '!../contract/types.gen.js', '!../errors.js'],
    'The client runs in browsers, and knows the contract and its error codes alone.',
  ),
  mayNotImport(
    ['src/app.ts'],
    ['./storage/*', './config.js', './main.js', './cli.js'],
    'The app is given its storage and its settings.',
  ),
);
