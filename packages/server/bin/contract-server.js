#!/usr/bin/env node
// npm links only a command whose file is there when it installs a workspace; dist/ is built later. A start of the Plant
// Store in a checkout builds dist/ without types. Only a new service, which is compiled against them, needs those.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const isBuilt = (/** @type {string} */ file) => existsSync(new URL(`../dist/${file}`, import.meta.url));
const build = `run "npm run build" in ${fileURLToPath(new URL('../../../', import.meta.url))}`;
const fault = !isBuilt('index.js')
  ? `it is not built: ${build}`
  : process.argv[2] === 'new' && !isBuilt('index.d.ts')
    ? `the types that a new service needs are not built: ${build}`
    : undefined;
if (fault === undefined) await import('../dist/cli/command.js');
else {
  console.error(`contract-server: ${fault}`);
  process.exitCode = 1;
}
