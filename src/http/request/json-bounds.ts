// Bounds what a JSON text may hold before it is parsed: nesting and many small values take a hundred times its length.
import { endOfString } from './exact-json.js';

/** A text up to this length, in bytes, cannot hold so much that parsing it takes memory or time worth a bound. */
export const unboundedLength = 10_000;
/** How many values and keys a longer text may have together. */
const maxValuesAndKeys = 10_000;

/** The beginning of a string, of an array or an object, the end of one, or a number or a literal as a whole. */
const piece = /["[\]{}]|[^\s,:"[\]{}]+/g;

/**
 * Looks for more in a JSON text than may be in it; the text need not be well-formed. What it costs is bounded by the
 * number of values and keys, and by native searches through strings and white space.
 * @param maxDepth - How many arrays and objects may stand inside each other.
 * @returns What there is too much of, for a person; undefined when the text is within the bounds.
 */
export function findExcess(text: string, maxDepth: number): string | undefined {
  let depth = 0;
  let count = 0;
  piece.lastIndex = 0;
  while (piece.test(text)) {
    const last = text[piece.lastIndex - 1];
    if (last === ']' || last === '}') {
      // An end without a beginning: the parser stops here, and has come no further than this has.
      if (--depth < 0) return undefined;
      continue;
    }
    if (last === '"') piece.lastIndex = endOfString(text, piece.lastIndex - 1);
    else if ((last === '[' || last === '{') && ++depth > maxDepth) {
      return `its values may be nested ${maxDepth} deep at most`;
    }
    if (++count > maxValuesAndKeys) {
      return `it may hold ${maxValuesAndKeys} values and keys at most`;
    }
  }
  return undefined;
}
