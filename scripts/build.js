// Builds the server and the Plant Store, each into its folder dist/.
import { spawnSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

process.chdir(resolve(import.meta.dirname, '..'));
for (const folder of ['dist', 'packages/server/dist']) rmSync(folder, { recursive: true, force: true });
const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const { status } = spawnSync(process.execPath, [compiler, '-b', 'tsconfig.build.json'], { stdio: 'inherit' });
if (status === 0) cpSync('src/migrations', 'dist/migrations', { recursive: true });
process.exitCode = status ?? 1;
