// The size of a page, and the other bounds of reads, on every engine. Rendered migrations contain them, too.

/** The maximum number of documents in the first page of a list, and in a part of documents with their keys. */
export const pageRows = 500;
/** The maximum size of a page in bytes, including commas. A single document may exceed it. */
export const pageBytes = 256 * 1024;
/** The text of several pages, in bytes, from which no further page is read: all of it is in memory together. */
export const bytesTogether = 4 * pageBytes;
/** The number of documents that are counted at once. */
export const countedTogether = 5_000;
/** The maximum time for counting, in ms. */
export const countTime = 10_000;
