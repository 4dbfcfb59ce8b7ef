// The loans of a library, by the number of the copy: a copy has at most one loan, since its number is the loan's id.
import {
  ApiError,
  Documents,
  type Collection,
  type CollectionDefinition,
  type ErrorEntry,
  type Handlers,
  type Stored,
} from 'contract-server';
import type { components, operations, operationSecurity } from './types.gen.js';

type Loan = components['schemas']['Loan'];

export const loans: CollectionDefinition<'int64'> = {
  name: 'loans',
  id: 'int64',
  column: 'loan',
};

/** The errors that only loans have. */
export const loanErrors = {
  copyLent: { code: 40901, message: 'This copy is lent.' },
  renewedTooOften: { code: 40902, message: 'The loan cannot be renewed again.' },
  loanNotFound: { code: 40402, message: 'This copy is not lent.' },
} as const satisfies Record<string, ErrorEntry>;

const maxRenewals = 3;
const renewalDays = 14;

/** Creates the handlers of the operations on loans. */
export function loanOperations(
  collection: Collection,
): Pick<
  Handlers<operations, operationSecurity>,
  'createLoan' | 'listLoans' | 'exportLoans' | 'getLoan' | 'replaceLoan' | 'renewLoan' | 'deleteLoan'
> {
  const fields = { copy: true, isbn: true, borrower: true, due: true, renewals: true } as const;
  const all = new Documents<bigint, Loan>(collection, fields);
  return {
    async createLoan({ caller, body }) {
      const loan = { ...body, renewals: 0 };
      const outcome = await all.write(caller.subject, loan.copy, { when: 'absent', value: loan });
      if (outcome === 'other') throw new ApiError(loanErrors.copyLent);
      return loan;
    },

    async listLoans({ caller, query: { limit, descending } }) {
      return Promise.resolve(all.list(caller.subject, { limit, descending }));
    },

    async exportLoans({ caller }) {
      return Promise.resolve(toCsv(all.values(caller.subject)));
    },

    async getLoan({ caller, params: { copy } }) {
      return (await all.get(caller.subject, copy)) ?? notFound();
    },

    async replaceLoan({ caller, params: { copy }, body }) {
      const loan = { copy, ...body };
      const outcome = await all.write(caller.subject, copy, { when: 'present', value: loan });
      return outcome === 'missing' ? notFound() : loan;
    },

    async renewLoan({ caller, params: { copy } }) {
      return (await all.change(caller.subject, copy, renewed)) ?? notFound();
    },

    async deleteLoan({ caller, params: { copy } }) {
      if (!(await all.delete(caller.subject, copy))) notFound();
    },
  };
}

/** @throws ApiError when the loan has been renewed as often as it can be. */
function renewed(loan: Stored<Loan>): Stored<Loan> {
  if (loan.renewals >= maxRenewals) throw new ApiError(loanErrors.renewedTooOften);
  const due = new Date(loan.due);
  due.setUTCDate(due.getUTCDate() + renewalDays);
  return { ...loan, due: due.toISOString().slice(0, 10), renewals: loan.renewals + 1 };
}

const columns = ['copy', 'isbn', 'borrower', 'due', 'renewals'] as const;

/** Generates a line for each loan (RFC 4180), many at a time, as the client reads. */
async function* toCsv(found: AsyncIterable<Stored<Loan>>): AsyncGenerator<string> {
  let lines = `${columns.join(',')}\r\n`;
  for await (const loan of found) {
    lines += `${columns.map((name) => quoted(String(loan[name]))).join(',')}\r\n`;
    if (lines.length < 65_536) continue;
    yield lines;
    lines = '';
  }
  yield lines;
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function notFound(): never {
  throw new ApiError(loanErrors.loanNotFound);
}
