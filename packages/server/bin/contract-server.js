#!/usr/bin/env node
// npm links only a command whose file is there when it installs a workspace; dist/ is built later. A start of the Plant
// Store in a checkout builds dist/ without the types, which a service cannot be compiled without.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const isBuilt = existsSync(new URL('../dist/index.d.ts', import.meta.url));
const fault = isBuilt
  ? (await import('../dist/base/version.js')).olderNode()
  : `its types are not built: run "npm run build" in ${fileURLToPath(new URL('../../../', import.meta.url))}`;
if (fault === undefined) await import('../dist/cli/command.js');
else {
  console.error(`contract-server: ${fault}`);
  process.exitCode = 1;
}
