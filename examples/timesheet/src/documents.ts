// What is stored. Each subject has documents of its own.
import { Documents, type CollectionDefinition, type ServiceContext } from 'contract-server';
import type { components } from './types.gen.js';

type Schemas = components['schemas'];
export type Entry = Schemas['Entry'];

const text = <Name extends string>(name: Name, column: string) =>
  ({ name, id: 'text', column }) as const satisfies CollectionDefinition;

/** The collections, by their names. */
export const collections = {
  /** By their ids, with the totals of their entries. */
  projects: text('projects', 'project'),
  /** The one that runs, if any, under the id `running`. */
  timers: text('timers', 'timer'),
  /** By ids that sort them by project and start. */
  entries: text('entries', 'entry'),
  /** Copies of the entries that are on no invoice, by the same ids. */
  unbilled: text('unbilled', 'entry'),
  /** By their numbers. */
  invoices: { name: 'invoices', id: 'int64', column: 'invoice' },
  /** The number of the last invoice, under the id `invoices`. */
  counters: text('counters', 'counter'),
  keys: text('keys', 'kept'),
} as const satisfies Record<string, CollectionDefinition>;

/** Opens the documents of each kind. */
export function openDocuments({ collection }: ServiceContext) {
  const entry = { id: true, project: true, start: true, seconds: true } as const;
  return {
    projects: new Documents<string, Schemas['Project']>(collection(collections.projects), {
      ...{ project: true, name: true, rate: true, seconds: true, billed: true },
    }),
    timers: new Documents<string, Schemas['Timer']>(collection(collections.timers), {
      ...{ project: true, start: true },
    }),
    entries: new Documents<string, Entry>(collection(collections.entries), entry),
    unbilled: new Documents<string, Entry>(collection(collections.unbilled), entry),
    invoices: new Documents<bigint, Schemas['Invoice']>(collection(collections.invoices), {
      ...{ number: true, project: true, seconds: true, amount: true, entries: true },
    }),
    counters: new Documents<string, { last: bigint }>(collection(collections.counters), { last: true }),
  };
}
