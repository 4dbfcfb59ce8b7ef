// Reads a pattern, as far as it matters for the ways in which the engine could read a text.

/** The parts that repetitions may be written out to; beyond that, a limit counts as none. */
export const maxParts = 2_000;
/** In how many ways a part is read that ends a pattern, and does not count. */
const maxWays = 2;

/** A pattern, or a part of it. */
export type PatternPart =
  | { readonly kind: 'atom'; readonly atom: string }
  | { readonly kind: 'sequence' | 'choice'; readonly parts: readonly PatternPart[] }
  | { readonly kind: 'repetition'; readonly part: PatternPart; readonly min: number; readonly max: number }
  | { readonly kind: 'look'; readonly part: PatternPart }
  | { readonly kind: 'start' | 'end' };

/** An escape, a character class or a single character, in a pattern with the u flag. */
const atomToken =
  /\\(?:[pPu]\{[^}]*\}|u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[a-zA-Z]|[^])|\[(?:\\[^]|[^\]\\])*\]|[^]/uy;
const quantifierToken = /(?:[*+?]|\{(?<min>\d+)(?<comma>,(?<max>\d*))?\})\??/uy;
const groupToken = /\((?:\?(?:(?<look><?[=!])|<(?<name>[^>]*)>|(?<plain>[^:]*:)))?/uy;
const referenceToken = /\\(?:(?<index>[1-9]\d*)|k<(?<name>[^>]*)>)/uy;
/** Any character, in place of what a look-behind reads backwards. */
const anything = '[^]';
const empty: PatternPart = { kind: 'sequence', parts: [] };

/**
 * Reads a pattern, without what ends it and takes no time worth counting.
 * @param pattern - Must be valid with the u flag (ECMA-262 section 22.2.1).
 */
export function readPattern(pattern: string): PatternPart {
  return withoutEnd(new Reader(pattern).choice());
}

class Reader {
  readonly #pattern: string;
  /** Where the contents of the groups are that have been read, and of which references repeat the text. */
  readonly #groups = new Map<string, PatternPart>();
  #at = 0;
  #count = 0;
  #isBehind = false;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  choice(): PatternPart {
    const parts: PatternPart[] = [];
    do {
      const sequence: PatternPart[] = [];
      while (this.#at < this.#pattern.length && !'|)'.includes(this.#pattern[this.#at]!)) {
        sequence.push(this.#repeated(this.#part()));
      }
      parts.push({ kind: 'sequence', parts: sequence });
    } while (this.#read(/\|/y));
    return { kind: 'choice', parts };
  }

  #part(): PatternPart {
    // Without a condition, there are more ways.
    if (this.#read(/\\[bB]/y) || (this.#isBehind && this.#read(/[$^]/y))) return empty;
    if (this.#read(/\^/y)) return { kind: 'start' };
    if (this.#read(/\$/y)) return { kind: 'end' };
    const group = this.#read(groupToken);
    if (group !== null) return this.#group(group.groups ?? {});
    const reference = this.#read(referenceToken);
    if (reference !== null) {
      const { index, name } = reference.groups ?? {};
      const found = this.#groups.get(index ?? `<${name}`);
      const unread: PatternPart = this.#isBehind
        ? repeat({ kind: 'atom', atom: anything }, 0, Infinity)
        : empty;
      return found === undefined ? unread : repeat(found, 0, 1);
    }
    const [atom = ''] = this.#read(atomToken) ?? [];
    return { kind: 'atom', atom: this.#isBehind ? anything : atom };
  }

  #group({ look, name, plain }: Record<string, string | undefined>): PatternPart {
    const index = look === undefined && plain === undefined ? ++this.#count : undefined;
    const wasBehind = this.#isBehind;
    this.#isBehind ||= look?.startsWith('<') === true;
    const part = this.choice();
    this.#isBehind = wasBehind;
    this.#read(/\)/y);
    if (index !== undefined) this.#groups.set(String(index), part);
    if (name !== undefined) this.#groups.set(`<${name}`, part);
    return look === undefined ? part : { kind: 'look', part };
  }

  #repeated(part: PatternPart): PatternPart {
    const found = this.#read(quantifierToken);
    if (found === null) return part;
    const { min: least, comma, max } = found.groups ?? {};
    const min = Number(least ?? (found[0].startsWith('+') ? 1 : 0));
    if (least !== undefined && comma === undefined) return repeat(part, min, min);
    return repeat(part, min, found[0].startsWith('?') ? 1 : Number(max || Infinity));
  }

  #read(token: RegExp): RegExpExecArray | null {
    token.lastIndex = this.#at;
    const found = token.exec(this.#pattern);
    if (found !== null) this.#at = token.lastIndex;
    return found;
  }
}

function repeat(part: PatternPart, min: number, max: number): PatternPart {
  if (max <= 1 || (max < Infinity && max * sizeOf(part) <= maxParts))
    return { kind: 'repetition', part, min, max };
  return { kind: 'repetition', part, min: min * sizeOf(part) <= maxParts ? min : 1, max: Infinity };
}

function sizeOf(part: PatternPart): number {
  if (part.kind === 'sequence' || part.kind === 'choice') {
    return part.parts.reduce((size, one) => size + sizeOf(one), 1);
  }
  if (part.kind === 'repetition')
    return 1 + sizeOf(part.part) * Math.max(1, part.max < Infinity ? part.max : part.min);
  return part.kind === 'look' ? 1 + sizeOf(part.part) : 1;
}

/** Without the repetitions that end a pattern, if their part is simple: whatever they take, nothing after can fail. */
function withoutEnd(part: PatternPart): PatternPart {
  if (part.kind === 'choice') return { kind: 'choice', parts: part.parts.map(withoutEnd) };
  if (part.kind === 'repetition' && waysOf(part.part) <= maxWays) return { ...part, max: part.min };
  if (part.kind !== 'sequence' || part.parts.length === 0) return part;
  const parts = [...part.parts];
  parts.push(withoutEnd(parts.pop()!));
  return { kind: 'sequence', parts };
}

/** In how many ways a part can read a text, at most; Infinity if it has repetitions. */
function waysOf(part: PatternPart): number {
  if (part.kind === 'sequence') return part.parts.reduce((ways, one) => ways * waysOf(one), 1);
  if (part.kind === 'choice') return part.parts.reduce((ways, one) => ways + waysOf(one), 0);
  if (part.kind === 'repetition') return part.max <= 1 ? 1 + waysOf(part.part) : Infinity;
  return part.kind === 'look' ? Infinity : 1;
}
