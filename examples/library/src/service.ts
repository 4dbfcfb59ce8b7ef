// Defines the library, which contract-server runs.
import type { ErrorOf, Opened, Service } from 'contract-server';
import { bookErrors, bookOperations, books } from './books.js';
import { loanErrors, loanOperations, loans } from './loans.js';
import type { operations, operationSecurity, requiredScope, securitySchemes } from './types.gen.js';

/** The compiler reports a scope that the contract adds or removes. */
const scopes: Readonly<Record<requiredScope, true>> = {
  'books:read': true,
  'books:write': true,
  'loans:read': true,
  'loans:write': true,
};

export const service: Service = {
  name: 'library',
  program: new URL('./main.js', import.meta.url),
  command: new URL('./cli.js', import.meta.url),
  contract: new URL('../openapi.yaml', import.meta.url),
  // The compiler reports an operation that no resource implements.
  open: ({ collection }): Opened<operations, operationSecurity, securitySchemes> => ({
    handlers: { ...bookOperations(collection(books)), ...loanOperations(collection(loans)) },
  }),
  collections: [books, loans],
  migrations: new URL('../migrations/', import.meta.url),
  errors: { ...bookErrors, ...loanErrors },
  renderError: ({ statusCode: status, code, title, detail }): ErrorOf<operations> => ({
    mediaType: 'application/problem+json',
    body: { type: 'about:blank', title, status, code, ...(detail !== undefined && { detail }) },
  }),
  scopes: Object.keys(scopes),
  tokenPrefix: 'lib_',
  realm: 'library',
  metricPrefix: 'library_',
  databaseUrl: 'file:./data/library.db',
  example: {
    purpose: 'Add a book',
    method: 'POST',
    path: '/books',
    body: '{"isbn": "9780141439600", "title": "A Tale of Two Cities", "author": "Charles Dickens"}',
  },
};
