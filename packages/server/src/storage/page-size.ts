// The size of a page on every engine. Rendered migrations contain it, too.

/** The maximum number of documents in a page, or in each of its steps where it is read in several. */
export const pageRows = 500;
/** The maximum size of a page in bytes, including commas. A single document may exceed it. */
export const pageBytes = 256 * 1024;
