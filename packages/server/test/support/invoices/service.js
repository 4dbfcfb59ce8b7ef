// A service for tests, each of whose writes is a transaction over several documents: an invoice, the total of all, and the
// key of the request.
import { Documents, IdempotencyKeys, idempotencyErrors } from '../../../dist/index.js';

/** @type {import('../../../dist/index.js').CollectionDefinition<'int64'>} */
const invoices = { name: 'invoices', id: 'int64', column: 'invoice' };
/** @type {import('../../../dist/index.js').CollectionDefinition<'text'>} */
const totals = { name: 'totals', id: 'text', column: 'total' };
/** @type {import('../../../dist/index.js').CollectionDefinition<'text'> & { isTransient: true }} */
const keys = { name: 'keys', id: 'text', column: 'kept', isTransient: true };

/** @typedef {{ number: bigint, amount: number }} Invoice */
/** @typedef {{ count: bigint, amount: number }} Total */
/** @typedef {import('../../../dist/index.js').Caller} Caller */

/** @type {Total} */
const none = { count: 0n, amount: 0 };

/** @extends {Documents<bigint, Invoice>} */
class AllInvoices extends Documents {}
/** @extends {Documents<string, Total>} */
class AllTotals extends Documents {}

/** @type {import('../../../dist/index.js').Service} */
export const service = {
  name: 'invoices',
  program: new URL('./main.js', import.meta.url),
  command: new URL('./main.js', import.meta.url),
  contract: new URL('./openapi.yaml', import.meta.url),
  open(context) {
    const allInvoices = new AllInvoices(context.collection(invoices), { number: true, amount: true });
    const allTotals = new AllTotals(context.collection(totals), { count: true, amount: true });
    const requests = new IdempotencyKeys(context, keys);
    return {
      handlers: {
        /** @param {{ caller: Caller, headers: { 'Idempotency-Key': string }, body: { amount: number } }} request */
        createInvoice({ caller, headers: { 'Idempotency-Key': key }, body: { amount } }) {
          return requests.run(
            caller.subject,
            { caller, key, request: ['createInvoice', amount] },
            async (tx) => {
              const total = (await allTotals.value(tx, 'all')) ?? none;
              const count = BigInt(total.count) + 1n;
              const invoice = { number: count, amount };
              await allInvoices.write(tx, count, { when: 'absent', value: invoice });
              const value = { count, amount: total.amount + amount };
              await allTotals.write(tx, 'all', { when: 'any', value });
              return invoice;
            },
          );
        },
        /** @param {{ caller: Caller }} request */
        listInvoices: ({ caller }) => Promise.resolve(allInvoices.list(caller.subject)),
        /** @param {{ caller: Caller }} request */
        getTotal: async ({ caller }) => (await allTotals.get(caller.subject, 'all')) ?? none,
      },
    };
  },
  collections: [invoices, totals, keys],
  migrations: new URL('./migrations/', import.meta.url),
  errors: idempotencyErrors,
  scopes: ['invoices'],
  tokenPrefix: 'inv_',
  realm: 'invoices',
  metricPrefix: 'invoices_',
  databaseUrl: 'file:./data/invoices.db',
};
