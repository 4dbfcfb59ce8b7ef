// The command that a person types.
import { isAbsolute, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The command that runs a module of the service, for messages: with its path from the current folder. */
export function nodeCommand(module: URL): string {
  return `node ${pathOf(module)}`;
}

/** Whether a module of the service is neither in the current folder nor below it. */
export function isOutside(module: URL): boolean {
  const path = pathOf(module);
  // On Windows, the path to another drive is absolute.
  return path.startsWith('..') || isAbsolute(path);
}

/** The path of a module from the current folder. */
function pathOf(module: URL): string {
  return relative('', fileURLToPath(module));
}
