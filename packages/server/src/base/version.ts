// Reads the versions of this package and of the Node.js that it needs from package.json, and compares versions.
import { readFileSync } from 'node:fs';

const file = new URL('../../package.json', import.meta.url);

const manifest = JSON.parse(readFileSync(file, 'utf8')) as {
  version: string;
  engines: { node: `>=${string}` };
};

export const { version } = manifest;

/**
 * Returns a message if this Node.js is too old. Without this check, the first missing feature would fail with an error
 * that does not name the cause.
 */
export function olderNode(running = process.versions.node): string | undefined {
  const needed = manifest.engines.node.slice(2);
  return isOlder(running, needed)
    ? `Node.js ${needed} or later is needed, and this is Node.js ${running}`
    : undefined;
}

/** Whether a version comes before another one. Intl compares such numbers, too, but loads slowly. */
export function isOlder(version: string, other: string): boolean {
  return sortable(version) < sortable(other);
}

function sortable(version: string): string {
  return version.replaceAll(/\d+/g, (number) => number.padStart(9, '0'));
}
