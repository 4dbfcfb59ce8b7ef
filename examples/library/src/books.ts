// The books of a library, by their ISBN.
import {
  ApiError,
  Documents,
  type Collection,
  type CollectionDefinition,
  type ErrorEntry,
  type Handlers,
} from 'contract-server';
import type { components, operations, operationSecurity } from './types.gen.js';

type Book = components['schemas']['Book'];

export const books: CollectionDefinition<'text'> = {
  name: 'books',
  id: 'text',
  column: 'book',
};

/** The errors that only books have. */
export const bookErrors = {
  bookExists: { code: 40900, message: 'There is a different book with this ISBN.' },
  bookNotFound: { code: 40400, message: 'There is no book with this ISBN.' },
} as const satisfies Record<string, ErrorEntry>;

/** Creates the handlers of the operations on books. */
export function bookOperations(
  collection: Collection<string>,
): Pick<
  Handlers<operations, operationSecurity>,
  'createBook' | 'listBooks' | 'getBook' | 'replaceBook' | 'changeBook' | 'deleteBook'
> {
  const all = new Documents<string, Book>(collection, { isbn: true, title: true, author: true, shelf: true });
  return {
    async createBook({ caller, body }) {
      const outcome = await all.write(caller.subject, body.isbn, { when: 'absent', value: body });
      if (outcome === 'other') throw new ApiError(bookErrors.bookExists);
      return body;
    },

    async listBooks({ caller, query }) {
      return Promise.resolve(all.list(caller.subject, { limit: query.limit }));
    },

    async getBook({ caller, params: { isbn } }) {
      return (await all.get(caller.subject, isbn)) ?? notFound();
    },

    async replaceBook({ caller, params: { isbn }, body }) {
      const book = { isbn, ...body };
      const outcome = await all.write(caller.subject, isbn, { when: 'present', value: book });
      return outcome === 'missing' ? notFound() : book;
    },

    async changeBook({ caller, params: { isbn }, body }) {
      return (await all.change(caller.subject, isbn, (book) => ({ ...book, ...body }))) ?? notFound();
    },

    async deleteBook({ caller, params: { isbn } }) {
      if (!(await all.delete(caller.subject, isbn))) notFound();
    },
  };
}

function notFound(): never {
  throw new ApiError(bookErrors.bookNotFound);
}
