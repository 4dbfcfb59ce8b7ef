// The two kinds of ids: their limits, their order, and their text.
import { type Id, type IdKind, idRange, isTextId, textIdBytes } from './interface.js';

/** What the engines need to know about a kind of ids. */
export interface IdRules {
  /** A value that no id is less than, and one that no id exceeds. */
  readonly first: Id;
  readonly last: Id;
  /** A value that is greater than an id, and not greater than any id after it; undefined if none can follow. */
  readonly following: (id: Id) => Id | undefined;
  /** The id with a text, which is `${id}`. @throws SyntaxError when it is not an integer. */
  readonly parse: (text: string) => Id;
  readonly isValid: (id: Id) => boolean;
}

export const idRules: Readonly<Record<IdKind, IdRules>> = {
  int64: {
    first: idRange.min,
    last: idRange.max,
    following: (id) => (id === idRange.max ? undefined : BigInt(id) + 1n),
    parse: BigInt,
    isValid: (id) => typeof id === 'bigint' && BigInt.asIntN(64, id) === id,
  },
  text: {
    first: '',
    // One code point more than an id can have.
    last: '\u{10ffff}'.repeat(textIdBytes / 4 + 1),
    // No id contains U+0000.
    following: (id) => `${id}\u0001`,
    parse: String,
    isValid: (id) => typeof id === 'string' && isTextId(id),
  },
};
