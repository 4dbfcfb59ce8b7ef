// The command that a person types.
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The command that runs a module of the service, for messages: with its path from the current folder. */
export function nodeCommand(module: URL): string {
  return `node ${relative('', fileURLToPath(module))}`;
}

/** Whether a module of the service is neither in the current folder nor below it. */
export function isOutside(module: URL): boolean {
  return relative('', fileURLToPath(module)).startsWith('..');
}
