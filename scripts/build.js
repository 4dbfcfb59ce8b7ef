// Builds, each into its folder dist/: the server and the Plant Store; with "client" plant-store-client, as ES modules, and
// in cjs/ as CommonJS, for tools that cannot require those; with "services" the other services on this server.
//
//   node scripts/build.js [client | services]
import { spawnSync } from 'node:child_process';
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

process.chdir(resolve(import.meta.dirname, '..'));
const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const [part] = process.argv.slice(2);
if (part === 'client') {
  const dist = 'packages/client/dist';
  rmSync(dist, { recursive: true, force: true });
  compile('-p', 'packages/client');
  const commonJs = '--module commonjs --moduleResolution node10 --esModuleInterop false';
  compile(
    '-p',
    'packages/client',
    '--outDir',
    `${dist}/cjs`,
    '--verbatimModuleSyntax',
    'false',
    ...commonJs.split(' '),
  );
  writeFileSync(`${dist}/cjs/package.json`, '{ "type": "commonjs" }\n');
} else if (part === 'services') {
  const { services } = await import('./lib/services.js');
  for (const folder of services) {
    rmSync(`${folder}dist`, { recursive: true, force: true });
    compile('-b', folder);
  }
} else {
  for (const folder of ['dist', 'packages/server/dist']) rmSync(folder, { recursive: true, force: true });
  if (compile('-b', 'tsconfig.build.json')) cpSync('src/migrations', 'dist/migrations', { recursive: true });
}

/** Runs the compiler, and returns whether it succeeds; otherwise this process fails. @param {...string} args */
function compile(...args) {
  const { status } = spawnSync(process.execPath, [compiler, ...args], { stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
  return status === 0;
}
