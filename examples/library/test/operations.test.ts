// The operations of the library, without a process: what a service tests first.
import { openTestService } from 'contract-server/testing';
import t from 'tap';
import { service } from '../dist/service.js';

const book = { isbn: '9780141439600', title: 'A Tale of Two Cities', author: 'Charles Dickens' };

const loan = { copy: 9007199254740993n, isbn: book.isbn, borrower: 'Ada', due: '2031-12-24' };

t.test('a book is added once, and only its library has it', async (t) => {
  const library = await openTestService(service);
  t.teardown(() => library.close());
  t.match(await library.request('POST', '/books', { body: book }), { status: 201, json: book });
  const other = { ...book, title: 'Hard Times' };
  t.match(await library.request('POST', '/books', { body: other }), { status: 409, json: { code: 40900 } });
  t.strictSame((await library.request('GET', '/books')).json, [book]);

  t.match(await library.request('POST', '/loans', { body: loan }), { status: 201, json: loan });

  const token = await library.issueToken({ subject: 'south', scopes: ['books:read'], expiresIn: 60_000 });
  t.strictSame((await library.request('GET', '/books', { token })).json, []);
  t.match(await library.request('DELETE', `/books/${book.isbn}`, { token }), { status: 403 });
  library.advance(60_000);
  t.match(await library.request('GET', '/books', { token }), { status: 401 });
});

t.test('a loan is renewed three times at most, however many ask at the same time', async (t) => {
  const library = await openTestService(service);
  t.teardown(() => library.close());
  const renewals = `/loans/${loan.copy}/renewals`;
  t.match(await library.request('POST', renewals), { status: 404, json: { code: 40402 } });
  await library.request('POST', '/loans', { body: loan });
  const responses = await Promise.all(Array.from({ length: 8 }, () => library.request('POST', renewals)));
  t.equal(responses.filter(({ status }) => status === 200).length, 3);
  t.equal(responses.filter(({ status }) => status === 409).length, 5);
  t.strictSame((await library.request('GET', `/loans/${loan.copy}`)).json, {
    ...loan,
    due: '2032-02-04',
    renewals: 3,
  });
});
