// The two kinds of ids: their limits, their order, and their text.
import {
  type Id,
  type IdKind,
  idRange,
  type IdRange,
  isTextEnd,
  isTextId,
  textIdBytes,
} from './interface.js';

/** What the engines need to know about a kind of ids. */
export interface IdRules {
  /** A value that no id is less than, and one that no id exceeds. */
  readonly first: Id;
  readonly last: Id;
  /** A value that is greater than an end, and not greater than any id after it; undefined if none can follow. */
  readonly following: (end: Id) => Id | undefined;
  /** A value that is less than an end, and not less than any id before it; undefined if none can precede. */
  readonly preceding: (end: Id) => Id | undefined;
  /** The id with a text, which is `${id}`. @throws SyntaxError when it is not an integer. */
  readonly parse: (text: string) => Id;
  readonly isValid: (id: Id) => boolean;
  /** Whether a value can be an end of a range, which need not be an id. */
  readonly isEnd: (end: Id) => boolean;
}

/** One code point more than an id can have, each of them the last. */
const lastText = '\u{10ffff}'.repeat(textIdBytes / 4 + 1);

export const idRules: Readonly<Record<IdKind, IdRules>> = {
  int64: {
    first: idRange.min,
    last: idRange.max,
    following: (end) => (end === idRange.max ? undefined : BigInt(end) + 1n),
    preceding: (end) => (end === idRange.min ? undefined : BigInt(end) - 1n),
    parse: BigInt,
    isValid: isInt64,
    isEnd: isInt64,
  },
  text: {
    first: '',
    last: lastText,
    // No id contains U+0000.
    following: (end) => `${end}\u0001`,
    preceding: (end) => precedingText(String(end)),
    parse: String,
    isValid: (id) => typeof id === 'string' && isTextId(id),
    isEnd: (end) => typeof end === 'string' && isTextEnd(end),
  },
};

function isInt64(id: Id): boolean {
  return typeof id === 'bigint' && BigInt.asIntN(64, id) === id;
}

function precedingText(end: string): string | undefined {
  const [start, last] = split(end);
  if (last === undefined) return undefined;
  // Of the texts that begin with the code point before, none that can be an id is greater.
  return last === 1 ? start : start + String.fromCodePoint(last === 0xe000 ? 0xd7ff : last - 1) + lastText;
}

/** A text without its last code point, and that code point. */
function split(text: string): [start: string, last: number | undefined] {
  const last = Array.from(text).at(-1) ?? '';
  return [text.slice(0, text.length - last.length), last.codePointAt(0)];
}

/**
 * Returns the range of all ids that begin with a prefix, compared by UTF-8 bytes.
 * @throws TypeError if the prefix has an unpaired surrogate.
 * @example
 * const range = prefixRange('2026-'); // { from: '2026-', before: '2026.' }
 */
export function prefixRange(prefix: string): IdRange<string> {
  if (!prefix.isWellFormed()) throw new TypeError('a prefix must not have an unpaired surrogate');
  if (prefix === '') return {};
  // Nothing comes after the last code point, so that the range ends after all texts with the code point before it.
  const [start, last] = split(prefix.replace(/\u{10ffff}+$/u, ''));
  if (last === undefined) return { from: prefix };
  return { from: prefix, before: start + String.fromCodePoint(last === 0xd7ff ? 0xe000 : last + 1) };
}
