// Compiles the other services on this server, each into its folder dist/, with the compiler options of its tsconfig.json.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { services } from './lib/services.js';

const root = new URL('../', import.meta.url);
const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
for (const folder of services) {
  rmSync(new URL(`${folder}dist`, root), { recursive: true, force: true });
  const { status } = spawnSync(process.execPath, [compiler, '-b', folder], {
    cwd: fileURLToPath(root),
    stdio: 'inherit',
  });
  if (status !== 0) process.exitCode = 1;
}
