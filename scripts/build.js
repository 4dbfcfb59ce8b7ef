// Builds, each into its folder dist/: the server and the Plant Store; with "client" plant-store-client, as ES modules, and
// in cjs/ as CommonJS, for tools that cannot require those; with "services" the other services on this server.
//
//   node scripts/build.js [client | services]
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));
const compiler = 'node_modules/typescript/bin/tsc';
/** @type {{ engines: { node: string } }} */
const { engines } = JSON.parse(readFileSync('package.json', 'utf8'));
const [needed, running] = [engines.node.slice(2), process.versions.node];
// Without this check, the build would fail with an error that does not name the cause.
if (running.localeCompare(needed, 'en', { numeric: true }) < 0)
  fail(`Node.js ${needed} or later is needed, and this is Node.js ${running}.`);
if (!existsSync(compiler)) fail('What the build needs is not installed: run "npm ci" first.');
const [part] = process.argv.slice(2);
console.error(`Building the ${part ?? 'server'}…`);
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
} else {
  removeStale('.');
  removeStale('packages/server');
  compile('-b', 'tsconfig.build.json');
  for (const folder of ['', 'packages/server/'])
    cpSync(`${folder}src`, `${folder}dist`, { recursive: true, filter: (source) => !source.endsWith('.ts') });
  // The build of the image has no pages.
  if (existsSync('docs')) (await import('./lib/operation.js')).copyOperation();
}

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(message);
  process.exit(1);
}

/**
 * Removes from a dist/ what has no source any longer; the compiler renews only what has changed.
 * @param {string} folder
 */
function removeStale(folder) {
  const dist = join(folder, 'dist');
  if (!existsSync(dist)) return;
  for (const file of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    const source = file.replace(/(\.d\.ts|\.js)(\.map)?$/, '.ts');
    const isKept =
      file.endsWith('.tsbuildinfo') || [source, file].some((name) => existsSync(join(folder, 'src', name)));
    if (!isKept) rmSync(join(dist, file), { recursive: true, force: true });
  }
}

/** Runs the compiler. If it fails, this process does. @param {...string} args */
function compile(...args) {
  const { status } = spawnSync(process.execPath, [compiler, ...args], { stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}
