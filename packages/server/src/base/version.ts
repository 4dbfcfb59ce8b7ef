// Reads the version of this package from package.json, and compares versions.
import { readFileSync } from 'node:fs';

const file = new URL('../../package.json', import.meta.url);

export const { version } = JSON.parse(readFileSync(file, 'utf8')) as { version: string };

/** Whether a version comes before another one. Intl compares such numbers, too, but loads slowly. */
export function isOlder(version: string, other: string): boolean {
  return sortable(version) < sortable(other);
}

function sortable(version: string): string {
  return version.replaceAll(/\d+/g, (number) => number.padStart(9, '0'));
}
