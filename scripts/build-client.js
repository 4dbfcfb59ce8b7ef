// Builds the package plant-store-client in dist/client: as ES modules; in cjs/ as CommonJS, for tools that cannot
// require those; and in src/ the sources that the source maps of both lead to.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = resolve(import.meta.dirname, '..');
const folder = join(root, 'dist/client');
const compilerOptions = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2023, sourceMap: true };

/**
 * Copies a file, and creates the folders above its copy.
 * @param {string} from
 * @param {string} to
 */
function copy(from, to) {
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
}

rmSync(folder, { recursive: true, force: true });
const tsc = fileURLToPath(import.meta.resolve('typescript/bin/tsc'));
execFileSync(process.execPath, [tsc, '-p', join(root, 'src/client')], { stdio: 'inherit' });

for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
  if (!file.endsWith('.js')) continue;
  const name = file.replace(/\.js$/, '');
  const original = join(root, 'src', `${name}.ts`);
  const source = join(folder, 'src', `${name}.ts`);
  copy(original, source);
  copy(join(folder, `${name}.d.ts`), join(folder, 'cjs', `${name}.d.ts`));
  const { outputText, sourceMapText = '' } = ts.transpileModule(readFileSync(source, 'utf8'), {
    compilerOptions,
    fileName: source,
  });
  const commonJs = join(folder, 'cjs', file);
  writeFileSync(commonJs, outputText);
  writeFileSync(`${commonJs}.map`, sourceMapText);
  for (const path of [join(folder, `${file}.map`), `${commonJs}.map`]) {
    const sources = [relative(dirname(path), source).replaceAll('\\', '/')];
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), sources }));
  }
}
writeFileSync(join(folder, 'cjs/package.json'), '{ "type": "commonjs" }\n');
for (const file of ['src/client/package.json', 'src/client/README.md', 'LICENSE'])
  copy(join(root, file), join(folder, basename(file)));
