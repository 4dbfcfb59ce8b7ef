// Parses JSON within limits of its nesting, the number of its values and the length of its keys, since they can multiply
// the memory and the time that it takes.
import { endOfString, parseExactJson } from '../../contract/document/exact-json.js';
import { ApiError, isApiError } from '../../base/errors.js';

/** Maximum nesting of arrays and objects: deep enough for any document, and shallow enough to walk through. */
const maxDepth = 64;
/** Texts up to this length together, in characters, are cheap to parse whatever else they contain. */
const unboundedLength = 10_000;
/** Maximum number of values and keys together in longer texts. */
const maxValuesAndKeys = 10_000;
/** Maximum length of a key in longer texts, in characters as written: each fault inside its value repeats it. */
const maxKeyLength = 200;

/** Matches an opening quote, an opening bracket or brace, or a whole number or literal. */
const piece = /["[{]|[^\s,:"[\]{}]+/g;
/** Matches the colon after a key. */
const colon = /[ \t\n\r]*:/y;

/** The end of a message of JSON.parse that repeats the text, or the place by another count. */
const excerpt = /, (?:"|\.{3})[^]*| \(line.*/;

/** Parses the JSON of one body: all of it, or the texts of the fields of a form, which share the limits. */
export class JsonReader {
  /** The length of the texts so far, and the number of values and keys in them. */
  #length = 0;
  #values = 0;

  /**
   * Parses a text with exact integers (see parseExactJson).
   * @throws ApiError when it is not JSON (RFC 8259), or nested or filled beyond limits.
   */
  parse(text: string): unknown {
    this.#length += text.length;
    if (this.#length > unboundedLength) this.#refuseExcess(text);
    let value: unknown;
    try {
      value = parseExactJson(text);
    } catch (error) {
      const isMarked = text.startsWith('\ufeff');
      const detail = isMarked
        ? 'it begins with a byte order mark'
        : (error as Error).message.replace(excerpt, '');
      throw new ApiError('malformedJson', { detail });
    }
    if (isDeeper(value, maxDepth)) throw tooMuch(`it may be nested at most ${maxDepth} levels deep`);
    return value;
  }

  /** Parses a text inside a part of a request. A symbol describes the fault of one that cannot be parsed. */
  parseText(text: string): unknown {
    try {
      return this.parse(text);
    } catch (error) {
      if (!isApiError(error)) throw error;
      const { kind, detail } = error;
      return Symbol(`${kind === 'malformedJson' ? 'is not well-formed JSON' : 'is too large'}: ${detail!}`);
    }
  }

  /**
   * Refuses what is too much in a text, well-formed or not. The cost is bounded by the number of values and keys, apart
   * from native searches through strings and white space.
   */
  #refuseExcess(text: string): void {
    piece.lastIndex = 0;
    while (piece.test(text)) {
      const start = piece.lastIndex;
      if (text[start - 1] === '"') {
        piece.lastIndex = colon.lastIndex = endOfString(text, start - 1);
        if (piece.lastIndex - start > maxKeyLength + 1 && colon.test(text))
          throw tooMuch(`its keys may have at most ${maxKeyLength} characters`);
      }
      if (++this.#values > maxValuesAndKeys)
        throw tooMuch(`it may contain at most ${maxValuesAndKeys} values and keys`);
    }
  }
}

/** Whether arrays and objects are nested more than some levels deep. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  for (const key of Object.keys(value))
    if (isDeeper((value as Record<string, unknown>)[key], levels - 1)) return true;
  return false;
}

function tooMuch(detail: string): ApiError {
  return new ApiError('invalidBody', { detail });
}
