// Finds the other services on this server, and runs the command contract-server for this repository.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = new URL('../../', import.meta.url);

/** Each is a folder of examples/ or services/ with a contract: relative to the root and with a slash at the end. */
export const services = ['examples/', 'services/']
  .filter((parent) => existsSync(new URL(parent, root)))
  .flatMap((parent) => readdirSync(new URL(parent, root)).map((name) => `${parent}${name}/`))
  .filter((folder) => existsSync(new URL(`${folder}openapi.yaml`, root)));

const command = fileURLToPath(new URL('../../packages/server/bin/contract-server.js', import.meta.url));

/**
 * Runs the command in the current folder. If it fails, this process fails.
 * @param {...string} args
 */
export function contractServer(...args) {
  const { status } = spawnSync(process.execPath, [command, ...args], { stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}
