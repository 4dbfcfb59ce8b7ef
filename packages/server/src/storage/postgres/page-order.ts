// How pages are read in one direction, in SQL: for the functions of schemas, and for Citus.
import { type CollectionDefinition, type IdKind, idRange, textIdBytes } from '../interface.js';

/** The parts of statements that depend on the kind of ids and on the direction. */
export interface PageOrder {
  /** The condition that an id is between the ends of a page. */
  readonly within: (id: string, start: string, stop: string) => string;
  /** What follows an expression in ORDER BY. */
  readonly direction: '' | ' DESC';
  /** The aggregate function that finds the last id of a page. */
  readonly last: 'max' | 'min';
  /** The end at which nothing is left, and the one from which reading goes on. */
  readonly end: 'start' | 'stop';
  readonly moving: 'start' | 'stop';
  /** The value of the moving end after an id, which is not the other end. */
  readonly following: (id: string) => string;
}

/** The default of `stop`: no id is greater. */
export const greatestOf: Readonly<Record<IdKind, string>> = {
  int64: `${idRange.max}`,
  text: `repeat(chr(1114111), ${textIdBytes / 4 + 1})`,
};

/**
 * Returns how pages are read. `start` is the least id, included. So is `stop`, the greatest one, but not if texts are
 * read in descending order: no text is the one before another.
 */
export function pageOrder(kind: IdKind, descending: boolean): PageOrder {
  const isText = kind === 'text';
  if (!descending)
    return {
      within: (id, start, stop) => `${id} >= ${start} AND ${id} <= ${stop}`,
      direction: '',
      last: 'max',
      end: 'stop',
      moving: 'start',
      // No text contains U+0000.
      following: (id) => (isText ? `${id} || E'\\x01'` : `${id} + 1`),
    };
  return {
    within: (id, start, stop) => `${id} >= ${start} AND ${id} ${isText ? '<' : '<='} ${stop}`,
    direction: ' DESC',
    last: 'min',
    end: 'start',
    moving: 'stop',
    following: (id) => (isText ? id : `${id} - 1`),
  };
}

/** The names of a collection's functions, which the server does not call any more. */
export function functionsOf({ name }: CollectionDefinition): Record<'pages' | 'delete' | 'change', string> {
  return { pages: `${name}_pages_v2`, delete: `${name}_delete_v1`, change: `${name}_change_v1` };
}
