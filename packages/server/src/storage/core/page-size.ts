// The size of a page, and the other bounds of reads, on every engine. Rendered migrations contain them, too.

/** The maximum number of documents in the first page of a list, and in a part of documents with their keys. */
export const pageRows = 500;
/** The maximum size of a page in bytes, including commas. A single document may exceed it. */
export const pageBytes = 256 * 1024;
/** The text of several pages, in bytes, from which no further page is read: all of it is in memory together. */
export const bytesTogether = 4 * pageBytes;
