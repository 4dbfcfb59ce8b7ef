// Writes reports of all types that contract-server exports to packages/server/api/, so that a review sees every change
// of its interface; with --check, only verifies that they are current. Reads the declarations in packages/server/dist.
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { Extractor, ExtractorConfig, ExtractorLogLevel } from '@microsoft/api-extractor';

const check = process.argv.includes('--check');
const folder = resolve(import.meta.dirname, '../../packages/server');
const manifest = join(folder, 'package.json');
/** @type {{ exports: Record<string, string> }} */
const { exports } = JSON.parse(readFileSync(manifest, 'utf8'));
const modules = Object.values(exports).filter((file) => file.endsWith('.js'));
const temporary = mkdtempSync(join(tmpdir(), 'api-'));
mkdirSync(join(folder, 'api'), { recursive: true });
try {
  for (const file of modules) report(basename(file, '.js'), join(folder, file.replace(/js$/, 'd.ts')));
} finally {
  rmSync(temporary, { recursive: true });
}

/**
 * Writes or checks the report of a module.
 * @param {string} name
 * @param {string} declarations
 */
function report(name, declarations) {
  const config = ExtractorConfig.prepare({
    packageJsonFullPath: manifest,
    configObjectFullPath: undefined,
    configObject: {
      projectFolder: folder,
      mainEntryPointFilePath: declarations,
      compiler: { tsconfigFilePath: join(folder, 'tsconfig.json') },
      apiReport: {
        enabled: true,
        reportFileName: name,
        reportFolder: join(folder, 'api'),
        reportTempFolder: temporary,
        // The other modules use the types of this one.
        includeForgottenExports: name === 'index',
      },
    },
  });
  const { apiReportChanged } = Extractor.invoke(config, {
    localBuild: !check,
    messageCallback: (message) => {
      if (message.logLevel !== ExtractorLogLevel.Error) message.logLevel = ExtractorLogLevel.None;
    },
  });
  if (!check || !apiReportChanged) return;
  console.error(`packages/server/api/${name}.api.md is out of date: run "npm run generate", and review it.`);
  process.exitCode = 1;
}
