// Bounds the time that a pattern takes on any text: Node.js matches by backtracking, which can hold the event loop.

/** What an unbounded or long repetition counts, and the search for the start of a match that is not anchored. */
const manyWays = 100;
/** The maximum of the product below. It allows one long repetition, and some short ones next to it. */
const maxSteps = 2_000;

/**
 * A part of a pattern: in how many ways it can match from one position, the length of its shortest match, and whether it
 * contains a look-around, which reads text that it does not consume.
 */
interface Part {
  readonly ways: number;
  readonly length: number;
  readonly looks: boolean;
}

/** An escape, a character class or a single character, in a pattern with the u flag. */
const atom = /\\(?:[pPu]\{[^}]*\}|[^])|\[(?:\\[^]|[^\]\\])*\]|[^]/uy;
const quantifier = /(?:[*+?]|\{(?<min>\d+)(?<comma>,(?<max>\d*))?\})\??/uy;
const group = /\((?:\?(?::|<?[=!]|<[^>]*>))?/uy;

/**
 * Whether a pattern matches every text in a time that is linear in its length, with a small factor. Refuses some
 * patterns that do, because it does not compare the characters that neighboring parts match.
 * @param pattern - Must be valid with the u flag (ECMA-262 section 22.2.1).
 */
export function isFast(pattern: string): boolean {
  return stepsOf(pattern) <= maxSteps;
}

/**
 * The greatest number of steps that matching takes for each character of a text, with a factor for the search of the
 * start: below 200 for a pattern that is anchored and simple.
 * @param pattern - As for `isFast`.
 */
export function stepsOf(pattern: string): number {
  return new Patterns(pattern).alternatives(true).steps;
}

/** Reads a pattern, and counts as it reads. */
class Patterns {
  readonly #pattern: string;
  #at = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  /**
   * @param isWhole - Whether it is the whole pattern: a match may start anywhere, unless an alternative begins with ^,
   *   and nothing follows.
   * @returns What it has read as one part, and the product of ways and lengths.
   */
  alternatives(isWhole: boolean): Part & { steps: number } {
    let ways = 0;
    let length = 0;
    let looks = false;
    let steps = 0;
    do {
      const starts = isWhole && this.#pattern[this.#at] !== '^' ? manyWays : 1;
      const one = this.#sequence(isWhole);
      ways += starts * one.ways;
      steps += starts * one.ways * Math.max(1, one.length);
      length = Math.max(length, one.length);
      looks ||= one.looks;
    } while (this.#read(/\|/y));
    return { ways, length, looks, steps };
  }

  #sequence(isWhole: boolean): Part {
    let ways = 1;
    let length = 0;
    let looks = false;
    while (this.#at < this.#pattern.length && !'|)'.includes(this.#pattern[this.#at]!)) {
      const single = this.#part();
      const part = this.#repeated(single);
      // Whatever a repetition at the end takes, nothing that follows can fail.
      const isLast = isWhole && [undefined, '|'].includes(this.#pattern[this.#at]);
      ways *= isLast && single.ways === 1 && !single.looks ? 1 : part.ways;
      length += part.length;
      looks ||= part.looks;
    }
    return { ways, length, looks };
  }

  #part(): Part {
    const opening = this.#read(group);
    if (opening !== null) {
      const inside = this.alternatives(false);
      this.#read(/\)/y);
      return { ...inside, looks: inside.looks || /[=!]$/.test(opening[0]) };
    }
    const [text = ''] = this.#read(atom) ?? [];
    // A reference compares a text of any length.
    return { ways: /^\\[1-9k]/.test(text) ? Infinity : 1, length: 1, looks: false };
  }

  #repeated(part: Part): Part {
    const found = this.#read(quantifier);
    if (found === null) return part;
    if (part.looks) return { ...part, ways: Infinity };
    const { min: least, comma, max } = found.groups ?? {};
    const min = Number(least ?? (found[0].startsWith('+') ? 1 : 0));
    const most = found[0].startsWith('?') ? 1 : Number(max === '' ? Infinity : (max ?? Infinity));
    const range = (least !== undefined && comma === undefined ? min : most) - min + 1;
    // Several ways of one repetition multiply with those of the next.
    const inside = part.ways > 1 ? part.ways ** (min + range - 1) : 1;
    return { ways: Math.min(range, manyWays) * inside, length: min * part.length, looks: false };
  }

  #read(token: RegExp): RegExpExecArray | null {
    token.lastIndex = this.#at;
    const found = token.exec(this.#pattern);
    if (found !== null) this.#at = token.lastIndex;
    return found;
  }
}
