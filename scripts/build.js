// Builds, each into its folder dist/: the server and the Plant Store; with "client" plant-store-client, as ES modules, and
// in cjs/ as CommonJS, for tools that cannot require those; with "services" the other services on this server. With
// "start", only what a start needs, if a source has changed, and without checking types.
//
//   node scripts/build.js [client | services | start]
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));
const compiler = findCompiler();
const [part] = process.argv.slice(2);
if (part !== 'start') console.error(`Building the ${part ?? 'server'}…`);
if (part === 'client') {
  const client = 'packages/client';
  const commonJs =
    '--module commonjs --moduleResolution node10 --esModuleInterop false --verbatimModuleSyntax false';
  rmSync(`${client}/dist`, { recursive: true, force: true });
  compile('-p', client);
  compile('-p', client, '--outDir', `${client}/dist/cjs`, ...commonJs.split(' '));
  writeFileSync(`${client}/dist/cjs/package.json`, '{ "type": "commonjs" }\n');
} else if (part === 'services') {
  const { services } = await import('./lib/services.js');
  for (const folder of services) {
    removeStale(folder);
    compile('-b', folder);
  }
} else if (part === 'start') {
  const sources = ['src', 'packages/server/src'].flatMap(filesOf);
  if (!sources.every((source) => changedAt(outputOf(source)) >= changedAt(source))) {
    console.error('Building the server…');
    const { build } = await import('esbuild');
    for (const folder of ['.', 'packages/server']) {
      const outdir = join(folder, 'dist');
      const entryPoints = filesOf(join(folder, 'src')).filter((file) => file.endsWith('.ts'));
      rmSync(outdir, { recursive: true, force: true });
      await build({ entryPoints, outdir, outbase: join(folder, 'src'), format: 'esm', sourcemap: true });
    }
    copyFiles();
  }
} else {
  removeStale('.');
  removeStale('packages/server');
  if (compile('-b', 'tsconfig.build.json')) copyFiles();
  // The build of the image has no pages.
  if (existsSync('docs')) (await import('./lib/operation.js')).copyOperation();
}

/** The path of the compiler. If it cannot be used, says what to do, and exits. */
function findCompiler() {
  /** @type {{ engines: { node: string } }} */
  const { engines } = JSON.parse(readFileSync('package.json', 'utf8'));
  const [needed, running] = [engines.node.slice(2), process.versions.node];
  // Without this check, the build would fail with an error that does not name the cause.
  if (running.localeCompare(needed, 'en', { numeric: true }) < 0)
    fail(`Node.js ${needed} or later is needed, and this is Node.js ${running}.`);
  try {
    return createRequire(import.meta.url).resolve('typescript/bin/tsc');
  } catch {
    return fail('What the build needs is not installed: run "npm ci" first.');
  }
}

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(message);
  process.exit(1);
}

/** Copies files that are not compiled. */
function copyFiles() {
  for (const folder of ['src/migrations', 'packages/server/src/http/pages/files'])
    cpSync(folder, outputOf(folder), { recursive: true });
}

/**
 * Removes from a dist/ what has no source any longer; the compiler renews only what has changed.
 * @param {string} folder
 */
function removeStale(folder) {
  const dist = join(folder, 'dist');
  if (changedAt(dist) === 0) return;
  for (const file of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    const source = join(folder, 'src', file.replace(/(\.d\.ts|\.js)(\.map)?$/, '.ts'));
    const isKept =
      file.endsWith('.tsbuildinfo') || changedAt(source) > 0 || changedAt(join(folder, 'src', file)) > 0;
    if (!isKept) rmSync(join(dist, file), { recursive: true, force: true });
  }
}

/** Runs the compiler, and returns whether it succeeds; otherwise this process fails. @param {...string} args */
function compile(...args) {
  const { status } = spawnSync(process.execPath, [compiler, ...args], { stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
  return status === 0;
}

/** The files that are built from, in a folder. @param {string} folder */
function filesOf(folder) {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return files.filter((file) => /\.(?:ts|sql|html|css|js)$/.test(file)).map((file) => join(folder, file));
}

/** @param {string} source */
function outputOf(source) {
  return source.replace(/(^|[\\/])src([\\/])/, '$1dist$2').replace(/\.ts$/, '.js');
}

/** When a file was last changed, in ms; 0 if there is none. @param {string} file */
function changedAt(file) {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
