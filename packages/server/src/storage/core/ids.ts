// The two kinds of ids: their limits, their order, their text, and the ranges of them.
import type { Change, CollectionDefinition, Id, IdKind, IdRange } from './interface.js';
import { IdError } from './interface.js';

const [firstInt64, lastInt64] = [-(2n ** 63n), 2n ** 63n - 1n];
/** The maximum length of an id of kind `text`, in bytes of UTF-8: 128 code points always fit. */
const textIdBytes = 512;

/** The ids from one to another, both included. Neither need be valid; if `from` is greater than `to`, there are none. */
export interface Bounds {
  readonly from: Id;
  readonly to: Id;
}

/** The properties of a kind of ids that the engines need. */
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
  /** A description of valid ids, for callers. */
  readonly description: string;
}

/** One code point more than an id can have, each of them the last. */
const lastText = '\u{10ffff}'.repeat(textIdBytes / 4 + 1);

export const idRules: Readonly<Record<IdKind, IdRules>> = {
  int64: {
    first: firstInt64,
    last: lastInt64,
    following: (end) => (end === lastInt64 ? undefined : BigInt(end) + 1n),
    preceding: (end) => (end === firstInt64 ? undefined : BigInt(end) - 1n),
    parse: BigInt,
    isValid: isInt64,
    isEnd: isInt64,
    description: 'an id is an integer of 64 bits',
  },
  text: {
    first: '',
    last: lastText,
    // No id contains U+0000.
    following: (end) => `${end}\u0001`,
    preceding: (end) => precedingText(String(end)),
    parse: String,
    isValid: (id) => id !== '' && isTextEnd(id) && Buffer.byteLength(String(id)) <= textIdBytes,
    isEnd: isTextEnd,
    description: `an id is not empty, has at most ${textIdBytes} bytes, and no U+0000 or unpaired surrogate`,
  },
};

function isInt64(id: Id): boolean {
  return BigInt.asIntN(64, id as bigint) === id;
}

/** Whether a text can be an end of a range. */
function isTextEnd(end: Id): boolean {
  const text = end as string;
  return text.isWellFormed() && !text.includes('\0');
}

/**
 * Whether a document can have an id: a contract may allow texts that no engine holds. The others have none.
 * @param change - The change that is to be made to the document.
 * @throws IdError if that would store it; TypeError for an id of another kind.
 */
export function canHave({ id: kind }: CollectionDefinition, id: Id, change?: Change): boolean {
  const { isValid, description } = idRules[kind];
  if (isValid(id)) return true;
  if (change !== undefined && change.text !== null && change.when !== 'equals')
    throw new IdError(description);
  return false;
}

/**
 * Returns the bounds of a range; undefined if no id can be in it.
 * @throws IdError for an end that no engine can compare; TypeError for two ends on one side.
 */
export function boundsOf({ id }: CollectionDefinition, range: IdRange<Id>): Bounds | undefined {
  const { after, from, before, to } = range;
  const { isEnd, first, last, following, preceding, description } = idRules[id];
  if (after !== undefined && from !== undefined) throw new TypeError('a range has either after or from');
  if (before !== undefined && to !== undefined) throw new TypeError('a range has either before or to');
  const [low, high] = [after ?? from, before ?? to];
  if ((low !== undefined && !isEnd(low)) || (high !== undefined && !isEnd(high)))
    throw new IdError(description);
  const start = after === undefined ? (from ?? first) : following(after);
  const end = before === undefined ? (to ?? last) : preceding(before);
  return start === undefined || end === undefined ? undefined : { from: start, to: end };
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
