// Builds plant-store-client in packages/client/dist: as ES modules, and in cjs/ as CommonJS, for tools that cannot require
// those.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const folder = resolve(import.meta.dirname, '../packages/client');
const dist = join(folder, 'dist');
const compilerOptions = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2023, sourceMap: true };

rmSync(dist, { recursive: true, force: true });
const tsc = fileURLToPath(import.meta.resolve('typescript/bin/tsc'));
execFileSync(process.execPath, [tsc, '-p', folder], { stdio: 'inherit' });

const cjs = join(dist, 'cjs');
mkdirSync(cjs);
for (const file of readdirSync(dist).filter((name) => name.endsWith('.js'))) {
  const name = file.replace(/\.js$/, '');
  cpSync(join(dist, `${name}.d.ts`), join(cjs, `${name}.d.ts`));
  const { outputText, sourceMapText = '' } = ts.transpileModule(
    readFileSync(join(folder, 'src', `${name}.ts`), 'utf8'),
    { compilerOptions, fileName: `${name}.ts` },
  );
  writeFileSync(join(cjs, file), outputText);
  const map = { ...JSON.parse(sourceMapText), sources: [`../../src/${name}.ts`] };
  writeFileSync(join(cjs, `${file}.map`), JSON.stringify(map));
}
writeFileSync(join(cjs, 'package.json'), '{ "type": "commonjs" }\n');
