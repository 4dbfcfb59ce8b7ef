// What storage does not do by itself, made of documents, ranges of ids, and transactions. docs/recipes.md explains it.
import { randomInt, randomUUID } from 'node:crypto';
import {
  ApiError,
  Documents,
  IdempotencyKeys,
  prefixRange,
  shared,
  type CollectionDefinition,
  type ServiceContext,
  type Transaction,
} from 'contract-server';

export const errors = {
  addressTaken: { code: 40900, message: 'Another member has this address.' },
  orderTooLong: { code: 40901, message: 'The order has too many lines; remove some first.' },
  orderNotFound: { code: 40400, message: 'There is no such order.' },
} as const;

/** A collection of documents whose ids are texts. */
const texts = (name: string): CollectionDefinition<'text'> => ({ name, id: 'text', column: 'document' });

export interface Member {
  readonly id: string;
  readonly name: string;
  readonly town: string;
}

/** Members, who are found by their towns, too. */
export const members = { all: texts('members'), byTown: texts('members_by_town') };
export function createMembers({ collection, transaction }: ServiceContext) {
  const fields = { id: true, name: true, town: true } as const;
  const all = new Documents<string, Member>(collection(members.all), fields);
  const byTown = new Documents<string, Member>(collection(members.byTown), fields);
  // A town may contain a slash, its encoded form does not.
  const inTown = (town: string) => `${encodeURIComponent(town)}/`;
  const placeOf = ({ id, town }: Member) => `${inTown(town)}${id}`;
  return {
    put: (subject: string, member: Member) =>
      transaction(subject, async (tx) => {
        const found = await all.value(tx, member.id);
        if (found !== undefined) await byTown.delete(tx, placeOf(found));
        await all.write(tx, member.id, { when: 'any', value: member });
        await byTown.write(tx, placeOf(member), { when: 'any', value: member });
      }),
    delete: (subject: string, id: string) =>
      transaction(subject, async (tx) => {
        const found = await all.value(tx, id);
        if (found === undefined) return false;
        await byTown.delete(tx, placeOf(found));
        return all.delete(tx, id);
      }),
    list: (subject: string, town: string) => byTown.list(subject, prefixRange(inTown(town))),
    /** Fills the index for the members that were stored before there was one. Can be repeated. */
    fill: async () => {
      for await (const { subject, id } of all.entriesOfAll())
        await transaction(subject, async (tx) => {
          const member = await all.value(tx, id);
          if (member !== undefined) await byTown.write(tx, placeOf(member), { when: 'any', value: member });
        });
    },
  };
}

export interface Task {
  readonly id: string;
  readonly title: string;
  readonly due: string;
  readonly done: boolean;
}
export interface TaskQuery {
  readonly done?: boolean | undefined;
  readonly sort: 'title' | 'due';
  readonly descending: boolean;
  readonly offset: number;
  readonly limit: number;
}

/** Tasks, which are listed in several orders. */
export const tasks = texts('tasks');
export function createTasks({ collection }: ServiceContext) {
  const all = new Documents<string, Task>(collection(tasks), {
    id: true,
    title: true,
    due: true,
    done: true,
  });
  return {
    put: (subject: string, task: Task) => all.write(subject, task.id, { when: 'any', value: task }),
    list: async (subject: string, { done, sort, descending, offset, limit }: TaskQuery) => {
      // Ids decide between equal values, or a task could be on two pages, and another on none.
      const order = (a: Task, b: Task) => {
        const isFirst = a[sort] < b[sort] || (a[sort] === b[sort] && a.id < b.id);
        return isFirst === descending ? 1 : -1;
      };
      const most = offset + limit;
      const first: Task[] = [];
      let total = 0;
      for await (const task of all.values(subject)) {
        if (done !== undefined && task.done !== done) continue;
        total++;
        // Those that cannot be on the page any more take no memory.
        if (first.push(task) >= 2 * most) first.sort(order).splice(most);
      }
      return { items: first.sort(order).slice(offset, most), total };
    },
  };
}

export interface Account {
  readonly id: string;
  readonly address: string;
}

/** Accounts with unique e-mail addresses. */
export const accounts = { all: texts('accounts'), addresses: texts('addresses') };
export function createAccounts({ collection, transaction }: ServiceContext) {
  const all = new Documents<string, Account>(collection(accounts.all), { id: true, address: true });
  const addresses = new Documents<string, { id: string }>(collection(accounts.addresses), { id: true });
  const keyOf = (address: string) => address.toLowerCase();
  return {
    put: (subject: string, account: Account) =>
      transaction(subject, async (tx) => {
        const { id, address } = account;
        const found = await all.value(tx, id);
        if (found !== undefined && keyOf(found.address) !== keyOf(address))
          await addresses.delete(tx, keyOf(found.address));
        // `same` means that it is this account's already.
        const outcome = await addresses.write(tx, keyOf(address), { when: 'absent', value: { id } });
        if (outcome === 'other') throw new ApiError(errors.addressTaken);
        await all.write(tx, id, { when: 'any', value: account });
      }),
  };
}

export interface Receipt {
  readonly number: bigint;
  readonly text: string;
}

/** Receipts with the numbers 1, 2, 3 and so on. */
export const receipts = {
  all: { name: 'receipts', id: 'int64', column: 'document' } satisfies CollectionDefinition<'int64'>,
  last: texts('last_receipt'),
};
export function createReceipts({ collection, transaction }: ServiceContext) {
  const all = new Documents<bigint, Receipt>(collection(receipts.all), { number: true, text: true });
  const last = new Documents<string, { number: bigint }>(collection(receipts.last), { number: true });
  return {
    add: (subject: string, text: string) =>
      transaction(subject, async (tx) => {
        const number = BigInt((await last.value(tx, 'last'))?.number ?? 0) + 1n;
        await last.write(tx, 'last', { when: 'any', value: { number } });
        await all.write(tx, number, { when: 'absent', value: { number, text } });
        return number;
      }),
    list: (subject: string) => all.list(subject, { descending: true }),
  };
}

export interface Order {
  readonly id: string;
  readonly version: number;
}
export interface Line {
  readonly id: string;
  readonly text: string;
}

/** Orders with their lines. */
export const orders = { all: texts('orders'), lines: texts('order_lines') };
export function createOrders({ collection, transaction }: ServiceContext) {
  const all = new Documents<string, Order>(collection(orders.all), { id: true, version: true });
  const lines = new Documents<string, Line>(collection(orders.lines), { id: true, text: true });
  const raised = (order: Order) => ({ ...order, version: order.version + 1 });
  const linesOf = (id: string) => prefixRange(`${id}/`);
  return {
    create: (subject: string) =>
      transaction(subject, async (tx) => {
        const order = { id: randomUUID(), version: 0 };
        await all.write(tx, order.id, { when: 'absent', value: order });
        return order;
      }),
    addLine: (subject: string, id: string, text: string) =>
      transaction(subject, async (tx) => {
        if ((await all.change(tx, id, raised)) === undefined) throw new ApiError(errors.orderNotFound);
        const line = { id: `${id}/${randomUUID()}`, text };
        await lines.write(tx, line.id, { when: 'absent', value: line });
        return line;
      }),
    /** Deletes an order with all of its lines. */
    delete: (subject: string, id: string) =>
      transaction(subject, async (tx) => {
        if (!(await all.delete(tx, id))) throw new ApiError(errors.orderNotFound);
        const most = 90;
        let deleted = 0;
        for await (const line of lines.values(subject, { ...linesOf(id), limit: most + 1 })) {
          if (++deleted > most) throw new ApiError(errors.orderTooLong);
          await lines.delete(tx, line.id);
        }
        return deleted;
      }),
    list: (subject: string, id: string) => lines.list(subject, linesOf(id)),
  };
}

export interface Expense {
  readonly id: string;
  readonly cents: number;
}

/** Expenses, and their total in two forms. */
export const expenses = { all: texts('expenses'), totals: texts('totals') };
export function createExpenses({ collection, transaction }: ServiceContext) {
  const all = new Documents<string, Expense>(collection(expenses.all), { id: true, cents: true });
  const totals = new Documents<string, { cents: number }>(collection(expenses.totals), { cents: true });
  /** @param parts - Over how many documents the total is spread. */
  const add = (subject: string, expense: Expense, parts: number) =>
    transaction(subject, async (tx) => {
      const outcome = await all.write(tx, expense.id, { when: 'absent', value: expense });
      if (outcome !== 'inserted') return;
      const part = `${randomInt(parts)}`;
      const cents = ((await totals.value(tx, part))?.cents ?? 0) + expense.cents;
      await totals.write(tx, part, { when: 'any', value: { cents } });
    });
  const sum = async (values: AsyncIterable<{ cents: number }>) => {
    let total = 0;
    for await (const { cents } of values) total += cents;
    return total;
  };
  return {
    add,
    total: (subject: string) => sum(totals.values(subject)),
    addedUp: (subject: string) => sum(all.values(subject)),
  };
}

export interface Payment {
  readonly id: string;
  readonly cents: number;
}

/** Payments, whose ids are made here. */
export const payments = {
  all: texts('payments'),
  keys: { ...texts('payment_keys'), isTransient: true },
} as const;
export function createPayments(context: ServiceContext) {
  const all = new Documents<string, Payment>(context.collection(payments.all), { id: true, cents: true });
  const keys = new IdempotencyKeys(context, payments.keys);
  return {
    /** @param key - `headers['Idempotency-Key']`. */
    create: (subject: string, key: string | undefined, body: { cents: number }) =>
      keys.run(subject, { caller: { subject }, key, request: ['createPayment', body] }, async (tx) => {
        const payment = { id: randomUUID(), ...body };
        await all.write(tx, payment.id, { when: 'absent', value: payment });
        return payment;
      }),
  };
}

export interface Mail {
  readonly to: string;
  readonly text: string;
}

/** Mails that are sent after the transaction that has written them, whatever happens in between. */
export const outbox = { mails: texts('mails') };
export function createOutbox(
  { collection }: ServiceContext,
  send: (mail: Mail, key: string) => Promise<void>,
) {
  const mails = new Documents<string, Mail>(collection(outbox.mails), { to: true, text: true });
  let sending: Promise<void> | undefined;
  const sendAll = async () => {
    for await (const { subject, id, value, document } of mails.entriesOfAll()) {
      await send(value, id);
      await mails.deleteUnchanged(subject, id, document);
    }
  };
  return {
    put: (tx: Transaction, mail: Mail) =>
      mails.write(tx, `${new Date().toISOString()} ${randomUUID()}`, { when: 'absent', value: mail }),
    /** Sends all mails. A call while another one runs waits for that. */
    flush: () => (sending ??= sendAll().finally(() => (sending = undefined))),
  };
}

/** Jobs that run once a day, in whichever thread or instance begins first. */
export const jobs = texts('jobs');
export function createJobs({ collection, transaction }: ServiceContext) {
  const days = new Documents<string, { day: string }>(collection(jobs), { day: true });
  return {
    /** Runs a job unless it has begun today, and resolves to whether it has run. */
    runDaily: async (name: string, today: Date, job: () => Promise<void>) => {
      const day = today.toISOString().slice(0, 10);
      const isFirst = await transaction(shared('jobs'), async (tx) => {
        if ((await days.value(tx, name))?.day === day) return false;
        await days.write(tx, name, { when: 'any', value: { day } });
        return true;
      });
      if (isFirst) await job();
      return isFirst;
    },
  };
}

export interface Session {
  readonly id: string;
  /** In ms since the epoch. */
  readonly expires: number;
}

/** Sessions, which a job deletes when they have expired. */
export const sessions = texts('sessions');
export function createSessions({ collection }: ServiceContext) {
  const all = new Documents<string, Session>(collection(sessions), { id: true, expires: true });
  return {
    add: (subject: string, session: Session) =>
      all.write(subject, session.id, { when: 'absent', value: session }),
    /** Of all subjects. */
    deleteExpired: async (now: number) => {
      for await (const { subject, id, value, document } of all.entriesOfAll())
        if (value.expires <= now) await all.deleteUnchanged(subject, id, document);
    },
    list: (subject: string) => all.list(subject),
  };
}
