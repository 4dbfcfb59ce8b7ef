// Writes packages/server/docs/reference.md: all that contract-server exports, as it is declared in packages/server/dist, so
// that users can look it up, and a review sees every change; with --check, only verifies that it is up to date.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { Extractor, ExtractorConfig, ExtractorLogLevel } from '@microsoft/api-extractor';
import { writeGenerated } from '../lib/generated.js';

const folder = resolve(import.meta.dirname, '../../packages/server');
const manifest = join(folder, 'package.json');
/** @type {{ exports: Record<string, string> }} */
const { exports } = JSON.parse(readFileSync(manifest, 'utf8'));
const temporary = mkdtempSync(join(tmpdir(), 'api-'));
/** @type {string[]} */
const parts = [
  '# Reference\n\nAll that contract-server exports, written by "npm run generate"; do not edit. The ' +
    '[guide](start-your-own.md) shows how it is used.\n',
];
try {
  for (const [path, module] of Object.entries(exports))
    if (module.endsWith('.js')) parts.push(...describe(`contract-server${path.slice(1)}`, module));
} finally {
  rmSync(temporary, { recursive: true });
}
await writeGenerated('packages/server/docs/reference.md', parts.join('\n'));

/**
 * Describes a module: each name that it exports, then the types that these use.
 * @param {string} name - That by which it is imported.
 * @param {string} module - Its file, from the package's folder.
 */
function describe(name, module) {
  const found = declarations(module)
    .replaceAll('\r\n', '\n')
    .split(/\n\n+/)
    .flatMap((text) => {
      const [, word, name = ''] = /^(export )?declare (?:abstract )?\w+ (\w+)/m.exec(text) ?? [];
      return name === '' ? [] : [{ name, isExported: word !== undefined, text: text.trim() }];
    });
  const sections = (/** @type {boolean} */ isExported) =>
    found
      .filter((one) => one.isExported === isExported)
      .sort((a, b) => a.name.localeCompare(b.name))
      .map(({ name, text }) => `### ${name}\n\n\`\`\`ts\n${text}\n\`\`\`\n`);
  // The other modules use the types of the first one.
  const used = module.endsWith('index.js') ? sections(false) : [];
  return [
    `## ${name}\n`,
    ...sections(true),
    ...(used.length > 0 ? ['## Types that these use\n\nThey are not exported.\n', ...used] : []),
  ];
}

/**
 * The declarations of a module and of all that these use, in one text.
 * @param {string} module
 */
function declarations(module) {
  const rollup = join(temporary, basename(module, '.js'));
  const config = ExtractorConfig.prepare({
    packageJsonFullPath: manifest,
    configObjectFullPath: undefined,
    configObject: {
      projectFolder: folder,
      mainEntryPointFilePath: join(folder, module.replace(/js$/, 'd.ts')),
      compiler: { tsconfigFilePath: join(folder, 'tsconfig.json') },
      dtsRollup: { enabled: true, untrimmedFilePath: rollup },
    },
  });
  Extractor.invoke(config, {
    localBuild: true,
    messageCallback: (message) => {
      if (message.logLevel !== ExtractorLogLevel.Error) message.logLevel = ExtractorLogLevel.None;
    },
  });
  return readFileSync(rollup, 'utf8');
}
