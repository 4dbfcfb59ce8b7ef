// Returns the pages of a collection as the JSON array of a response.
import type { Id, Page, PageRange } from '../domain/collections.js';
import type { JsonArray } from './handlers.js';

/**
 * Returns the documents of a subject as an array that is read page by page, as it is sent.
 * @param readPage - Reads a page of the subject's documents.
 * @param limit - The maximum number of documents; all by default.
 */
export function listDocuments<I extends Id, Item>(
  readPage: (range: PageRange<I>) => Promise<Page<I>>,
  limit = Infinity,
): JsonArray<Item> {
  let after: I | undefined;
  let left = limit;
  return {
    async nextPage() {
      const { json, count, next } = await readPage({ after, limit: left });
      after = next;
      left -= count;
      return { json, more: next !== undefined && left > 0 };
    },
  };
}
