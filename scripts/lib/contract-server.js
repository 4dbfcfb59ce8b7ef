// Runs the command contract-server for this repository.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const command = fileURLToPath(new URL('../../packages/server/bin/contract-server.js', import.meta.url));

/**
 * Runs the command in the current folder. If it fails, this process fails.
 * @param {...string} args
 */
export function contractServer(...args) {
  const { status } = spawnSync(process.execPath, [command, ...args], { stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}
