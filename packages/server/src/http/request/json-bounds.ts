// Limits nesting, the number of values and the length of keys before JSON is parsed, since they can multiply the memory
// and the time that it takes.
import { endOfString } from '../../contract/document/exact-json.js';

/** Texts up to this length together, in bytes, are cheap to parse whatever they contain. */
export const unboundedLength = 10_000;
/** Maximum number of values and keys together in a longer text. */
const maxValuesAndKeys = 10_000;
/** Maximum length of a key in a longer text, in characters as written: each fault inside its value repeats it. */
const maxKeyLength = 200;

/** Matches an opening quote, a bracket or brace, or a whole number or literal. */
const piece = /["[\]{}]|[^\s,:"[\]{}]+/g;
/** Matches the colon after a key. */
const colon = /[ \t\n\r]*:/y;

/** The counts of several texts that share the limits, such as the fields of a form. */
export interface ReadJson {
  length: number;
  values: number;
}

export function nothingRead(): ReadJson {
  return { length: 0, values: 0 };
}

/**
 * Checks a JSON text, well-formed or not, against the limits. The cost is bounded by the number of values and keys,
 * apart from native searches through strings and white space.
 * @param maxDepth - Maximum nesting of arrays and objects.
 * @param read - The counts of other texts that share the limits.
 * @returns A human-readable description of the excess; undefined when the text is within the limits.
 */
export function findExcess(text: string, maxDepth: number, read = nothingRead()): string | undefined {
  let depth = 0;
  piece.lastIndex = 0;
  while (piece.test(text)) {
    const last = text[piece.lastIndex - 1];
    if (last === ']' || last === '}') {
      // An unmatched bracket: the parser will stop here too.
      if (--depth < 0) return undefined;
      continue;
    }
    if (last === '"') {
      const start = piece.lastIndex;
      piece.lastIndex = colon.lastIndex = endOfString(text, start - 1);
      if (piece.lastIndex - start > maxKeyLength + 1 && colon.test(text)) {
        return `its keys may have at most ${maxKeyLength} characters`;
      }
    } else if ((last === '[' || last === '{') && ++depth > maxDepth) {
      return `it may be nested at most ${maxDepth} levels deep`;
    }
    if (++read.values > maxValuesAndKeys) {
      return `it may contain at most ${maxValuesAndKeys} values and keys`;
    }
  }
  return undefined;
}
