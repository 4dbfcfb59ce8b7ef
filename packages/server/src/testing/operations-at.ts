// Finds the operations of a URL as the router does.
import type { Operation } from '../contract/operations.js';

/** The operations that have the path of a URL, whatever their methods. */
export function operationsAt(operations: readonly Operation[], url: string): readonly Operation[] {
  const path = pathOf(url);
  return operations.filter((known) =>
    new RegExp(
      `^(${known.basePaths.map(escaped).join('|')})${known.path
        .split(/{[^}]+}/)
        .map(escaped)
        .join('[^/]*')}$`,
    ).test(path),
  );
}

/** The path of a URL as the router compares it, as far as it is well-formed. */
export function pathOf(url: string): string {
  return decoded(url.split('?', 1)[0]!);
}

/** A text as a regular expression. */
function escaped(text: string): string {
  return decoded(text).replaceAll(/[^\w/]/g, '\\$&');
}

function decoded(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}
