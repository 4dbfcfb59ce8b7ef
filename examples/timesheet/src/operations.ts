// The operations. Each that writes several documents is a transaction, so what they say together always holds.
import { randomUUID } from 'node:crypto';
import {
  ApiError,
  IdempotencyKeys,
  prefixRange,
  type ErrorEntry,
  type Handlers,
  type ServiceContext,
  type Transaction,
} from 'contract-server';
import { collections, openDocuments, type Entry } from './documents.js';
import type { operations, operationSecurity } from './types.gen.js';

export const errors = {
  projectNotFound: { code: 40400, message: 'You have no project with this id.' },
  timerNotRunning: { code: 40402, message: 'The timer is not running.' },
  timerRunning: { code: 40900, message: 'The timer is running already.' },
  nothingToBill: { code: 40901, message: 'All entries of the project are on invoices.' },
} as const satisfies Record<string, ErrorEntry>;

/** A transaction has at most 100 documents: an entry is one of them, and the rest of an invoice a handful. */
const entriesPerInvoice = 80;

/** Creates the handlers. */
export function createHandlers(context: ServiceContext): Handlers<operations, operationSecurity> {
  const { transaction } = context;
  const { projects, timers, entries, unbilled, invoices, counters } = openDocuments(context);
  const keys = new IdempotencyKeys(context, collections.keys);

  /** Stores a new entry, and adds it to the totals of its project. */
  async function addEntry(tx: Transaction, { project, start, seconds }: Omit<Entry, 'id'>): Promise<Entry> {
    const added = await projects.change(tx, project, (found) => ({
      ...found,
      seconds: found.seconds + seconds,
    }));
    if (added === undefined) throw new ApiError(errors.projectNotFound);
    const entry = { id: `${project}/${start}/${randomUUID()}`, project, start, seconds };
    await entries.write(tx, entry.id, { when: 'absent', value: entry });
    await unbilled.write(tx, entry.id, { when: 'absent', value: entry });
    return entry;
  }

  /** Takes the earliest entries of a project that are on no invoice, so that no other invoice can take them. */
  async function takeUnbilled(tx: Transaction, subject: string, project: string): Promise<Entry[]> {
    const taken: Entry[] = [];
    const range = { ...prefixRange(`${project}/`), limit: entriesPerInvoice };
    // Another invoice may have taken what is listed. Only what is read by its id is checked when this one is stored.
    for await (const { id } of unbilled.values(subject, range)) {
      const entry = await unbilled.value(tx, id);
      if (entry === undefined) continue;
      await unbilled.delete(tx, id);
      taken.push(entry);
    }
    return taken;
  }

  /** Counts an invoice. The number is stored together with the invoice that has it, so none is left out. */
  async function nextNumber(tx: Transaction): Promise<bigint> {
    const number = BigInt((await counters.value(tx, 'invoices'))?.last ?? 0) + 1n;
    await counters.write(tx, 'invoices', { when: 'any', value: { last: number } });
    return number;
  }

  return {
    async listProjects({ caller }) {
      return Promise.resolve(projects.list(caller.subject));
    },

    async putProject({ caller, params: { project }, body }) {
      return transaction(caller.subject, async (tx) => {
        const { seconds, billed } = (await projects.value(tx, project)) ?? { seconds: 0, billed: 0 };
        const value = { project, ...body, seconds, billed };
        await projects.write(tx, project, { when: 'any', value });
        return value;
      });
    },

    async listEntries({ caller, params: { project }, query: { from, before, unbilled: open, limit } }) {
      const range = {
        ...prefixRange(`${project}/`),
        ...(from !== undefined && { from: `${project}/${from}` }),
        ...(before !== undefined && { before: `${project}/${before}` }),
      };
      return Promise.resolve((open ? unbilled : entries).list(caller.subject, { ...range, limit }));
    },

    async getTimer({ caller }) {
      return (await timers.get(caller.subject, 'running')) ?? timerNotRunning();
    },

    async startTimer({ caller, headers: { 'Idempotency-Key': key }, body: { project } }) {
      return keys.run(caller.subject, { caller, key, request: ['startTimer', project] }, async (tx) => {
        if ((await projects.value(tx, project)) === undefined) throw new ApiError(errors.projectNotFound);
        const timer = { project, start: timeOf(Date.now()) };
        const outcome = await timers.write(tx, 'running', { when: 'absent', value: timer });
        if (outcome !== 'inserted') throw new ApiError(errors.timerRunning);
        return timer;
      });
    },

    async stopTimer({ caller, headers: { 'Idempotency-Key': key } }) {
      return keys.run(caller.subject, { caller, key, request: ['stopTimer'] }, async (tx) => {
        const timer = (await timers.value(tx, 'running')) ?? timerNotRunning();
        await timers.delete(tx, 'running');
        const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(timer.start)) / 1_000));
        return addEntry(tx, { ...timer, seconds });
      });
    },

    async addEntry({ caller, headers: { 'Idempotency-Key': key }, body }) {
      return keys.run(caller.subject, { caller, key, request: ['addEntry', body] }, (tx) =>
        addEntry(tx, body),
      );
    },

    async createInvoice({ caller, headers: { 'Idempotency-Key': key }, body: { project } }) {
      return keys.run(caller.subject, { caller, key, request: ['createInvoice', project] }, async (tx) => {
        const found = await projects.value(tx, project);
        if (found === undefined) throw new ApiError(errors.projectNotFound);
        const taken = await takeUnbilled(tx, caller.subject, project);
        if (taken.length === 0) throw new ApiError(errors.nothingToBill);
        const seconds = taken.reduce((sum, entry) => sum + entry.seconds, 0);
        const invoice = {
          number: await nextNumber(tx),
          project,
          seconds,
          amount: Math.round((seconds * found.rate) / 3_600),
          entries: taken.map(({ id }) => id),
        };
        await projects.write(tx, project, {
          when: 'any',
          value: { ...found, billed: found.billed + seconds },
        });
        await invoices.write(tx, invoice.number, { when: 'absent', value: invoice });
        return invoice;
      });
    },

    async listInvoices({ caller, query: { before, limit } }) {
      return Promise.resolve(invoices.list(caller.subject, { before, descending: true, limit }));
    },
  };
}

/** The time in UTC, to the second, as the contract has it. */
function timeOf(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, '');
}

function timerNotRunning(): never {
  throw new ApiError(errors.timerNotRunning);
}
