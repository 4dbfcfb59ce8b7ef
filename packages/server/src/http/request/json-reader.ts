// Parses JSON within limits of its nesting, the number of its values and the length of its keys, since they can multiply
// the memory and the time that it takes.
import { endOfString, parseExactJson } from '../../contract/document/exact-json.js';
import { ApiError } from '../../base/errors.js';

/** Texts up to this length together, in characters, are cheap to parse whatever they contain. */
const unboundedLength = 10_000;
/** Maximum number of values and keys together in longer texts. */
const maxValuesAndKeys = 10_000;
/** Maximum length of a key in longer texts, in characters as written: each fault inside its value repeats it. */
const maxKeyLength = 200;

/** Matches an opening quote, a bracket or brace, or a whole number or literal. */
const piece = /["[\]{}]|[^\s,:"[\]{}]+/g;
/** Matches the colon after a key. */
const colon = /[ \t\n\r]*:/y;

/** The end of a message of JSON.parse that repeats the text, or the place by another count. */
const excerpt = /, (?:"|\.{3})[^]*| \(line.*/;

/** Parses the JSON of one body: all of it, or the texts of the fields of a form, which share the limits. */
export class JsonReader {
  readonly #maxDepth: number;
  /** The length of the texts so far, and the number of values and keys in them. */
  #length = 0;
  #values = 0;

  /** @param maxDepth - Maximum nesting of arrays and objects in longer texts. */
  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth;
  }

  /**
   * Parses a text with exact integers (see parseExactJson).
   * @throws ApiError when it is not JSON (RFC 8259), or nested or filled beyond limits.
   */
  parse(text: string): unknown {
    this.#length += text.length;
    const excess = this.#length > unboundedLength ? this.#findExcess(text) : undefined;
    if (excess !== undefined) throw new ApiError('invalidBody', { detail: excess });
    try {
      return parseExactJson(text);
    } catch (error) {
      const detail = (error as Error).message.replace(excerpt, '');
      throw new ApiError('malformedJson', { detail });
    }
  }

  /**
   * Describes what is too much in a text, well-formed or not. The cost is bounded by the number of values and keys, apart
   * from native searches through strings and white space.
   */
  #findExcess(text: string): string | undefined {
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
        if (piece.lastIndex - start > maxKeyLength + 1 && colon.test(text))
          return `its keys may have at most ${maxKeyLength} characters`;
      } else if ((last === '[' || last === '{') && ++depth > this.#maxDepth)
        return `it may be nested at most ${this.#maxDepth} levels deep`;
      if (++this.#values > maxValuesAndKeys)
        return `it may contain at most ${maxValuesAndKeys} values and keys`;
    }
    return undefined;
  }
}
