// Generates the TypeScript types of the contracts, after compiling the server, whose command does it; with --check, only
// verifies that the files are current. With --tests, generates those of the contracts of the tests, which are not kept.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, resolve } from 'node:path';
import { contractServer, services } from '../lib/services.js';

process.chdir(resolve(import.meta.dirname, '../..'));
const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const { status } = spawnSync(process.execPath, [compiler, '-b', 'packages/server'], { stdio: 'inherit' });
if (status !== 0) process.exit(1);

const garden = 'packages/server/test/support/garden';
const contracts = process.argv.includes('--tests')
  ? [
      [`${garden}/openapi.yaml`, `${garden}/types.gen.ts`],
      [`${garden}/orchard.yaml`, `${garden}/orchard.gen.ts`],
    ]
  : [
      ['openapi.yaml', 'src/types.gen.ts'],
      ['openapi.yaml', 'packages/client/src/types.gen.ts'],
      ...services.map((folder) => [`${folder}openapi.yaml`, `${folder}src/types.gen.ts`]),
    ];
const options = process.argv.filter((argument) => argument === '--check');
for (const [contract = '', file = ''] of contracts)
  if (existsSync(dirname(file))) contractServer('types', contract, file, ...options);
