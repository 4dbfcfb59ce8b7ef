// The operations of the timesheet: alone, repeated with their keys, and of 30 clients at a time.
import { randomUUID } from 'node:crypto';
import { openTestService, type TestService } from 'contract-server/testing';
import t, { type Test } from 'tap';
import { service } from '../dist/service.js';
import type { components } from '../src/types.gen.js';

type Schemas = components['schemas'];

/** Opens a timesheet with a project that costs 60.00 an hour. */
async function open(t: Test) {
  const timesheet = await openTestService(service);
  t.teardown(() => timesheet.close());
  const body = { name: 'The garden', rate: 6_000 };
  t.match(await timesheet.request('PUT', '/projects/garden', { body }), { status: 200, json: body });
  return timesheet;
}

const keyed = (key: string) => ({ 'Idempotency-Key': `"${key}"` });
const newKey = () => keyed(randomUUID());
const addEntry = (timesheet: TestService, start: string, headers = newKey()) =>
  timesheet.request('POST', '/entries', { headers, body: { project: 'garden', start, seconds: 600 } });
const createInvoice = (timesheet: TestService, headers = newKey()) =>
  timesheet.request('POST', '/invoices', { headers, body: { project: 'garden' } });
const read = async <T>(timesheet: TestService, path: string) =>
  (await timesheet.request('GET', path)).json as T;

t.test('a project keeps its totals when it is changed', async (t) => {
  const timesheet = await open(t);
  await addEntry(timesheet, '2030-01-31T09:00:00Z');
  const body = { name: 'Garden', rate: 0 };
  await timesheet.request('PUT', '/projects/garden', { body });
  t.strictSame(await read(timesheet, '/projects'), [{ project: 'garden', ...body, seconds: 600, billed: 0 }]);
});

t.test('the timer makes an entry', async (t) => {
  const timesheet = await open(t);
  const start = (project: string) => timesheet.request('POST', '/timer/start', { body: { project } });
  t.match(await timesheet.request('GET', '/timer'), { status: 404, json: { error: 40402 } });
  t.match(await timesheet.request('POST', '/timer/stop'), { status: 404, json: { error: 40402 } });
  t.match(await start('house'), { status: 404, json: { error: 40400 } });
  const { status, json } = await start('garden');
  t.equal(status, 200);
  t.strictSame(await read(timesheet, '/timer'), json);
  t.match(await start('garden'), { status: 409, json: { error: 40900 } });
  const stopped = await timesheet.request('POST', '/timer/stop');
  t.match(stopped, { status: 200, json: json as object });
  t.strictSame(await read(timesheet, '/projects/garden/entries'), [stopped.json]);
  t.match(await timesheet.request('GET', '/timer'), { status: 404 });
});

t.test('entries are listed by project and time', async (t) => {
  const timesheet = await open(t);
  await timesheet.request('PUT', '/projects/garden-2', { body: { name: 'Another', rate: 1 } });
  const times = ['2030-01-31T09:00:00Z', '2030-01-30T09:00:00Z', '2030-02-01T09:00:00Z'];
  for (const start of times) t.match(await addEntry(timesheet, start), { status: 200 });
  const starts = async (query: string) =>
    (await read<Schemas['Entry'][]>(timesheet, `/projects/garden/entries${query}`)).map(({ start }) => start);
  t.strictSame(await starts(''), [...times].sort());
  t.strictSame(await starts('?from=2030-01-31T09:00:00Z'), [times[0], times[2]]);
  t.strictSame(await starts('?before=2030-01-31T09:00:00Z'), [times[1]]);
  t.strictSame(await starts('?from=2030-01-30T10:00:00Z&before=2030-03-01T00:00:00Z&limit=1'), [times[0]]);
  t.strictSame(await read(timesheet, '/projects/garden-2/entries'), []);
});

t.test('an invoice takes what is on no other', async (t) => {
  const timesheet = await open(t);
  t.match(await createInvoice(timesheet), { status: 409, json: { error: 40901 } });
  for (let i = 0; i < 90; i++) await addEntry(timesheet, '2030-01-31T09:00:00Z');
  const first = (await createInvoice(timesheet)).json as Schemas['Invoice'];
  t.match(first, { number: 1, project: 'garden', seconds: 48_000, amount: 80_000 });
  t.equal(first.entries.length, 80);
  const rest = await read<Schemas['Entry'][]>(timesheet, '/projects/garden/entries?unbilled=true');
  const second = (await createInvoice(timesheet)).json as Schemas['Invoice'];
  t.match(second, { number: 2, seconds: 6_000, entries: rest.map(({ id }) => id) });
  t.match(await createInvoice(timesheet), { status: 409 });
  t.strictSame(await read(timesheet, '/invoices'), [second, first]);
  t.strictSame(await read(timesheet, '/invoices?before=2'), [first]);
  t.match(await read(timesheet, '/projects'), [{ seconds: 54_000, billed: 54_000 }]);
});

t.test('a request that is repeated with its key takes effect once', async (t) => {
  const timesheet = await open(t);
  const time = '2030-01-31T09:00:00Z';
  const sent = await Promise.all(Array.from({ length: 8 }, () => addEntry(timesheet, time, keyed('a'))));
  const [first] = sent;
  t.equal(first?.status, 200);
  for (const { status, text } of sent) t.strictSame([status, text], [200, first?.text]);
  t.strictSame(await read(timesheet, '/projects/garden/entries'), [first?.json]);
  const reused = { status: 422, json: { error: 42290 } };
  t.match(await addEntry(timesheet, '2030-01-31T10:00:00Z', keyed('a')), reused, 'another body');
  t.match(await createInvoice(timesheet, keyed('a')), reused, 'another operation');
  const refused = await timesheet.request('POST', '/timer/stop', { headers: keyed('b') });
  t.equal(refused.status, 404);
  t.match(await createInvoice(timesheet, keyed('b')), { status: 200 }, 'what failed keeps no key');
  const token = await timesheet.issueToken({ subject: 'bob' });
  const other = await timesheet.request('POST', '/timer/stop', { headers: keyed('a'), token });
  t.equal(other.status, 404, 'keys of one caller are not those of another');
  const unquoted = await timesheet.request('POST', '/timer/stop', { headers: { 'Idempotency-Key': 'c' } });
  t.equal(unquoted.status, 400);
});

t.test('of 30 clients at a time, none takes what another has', async (t) => {
  const timesheet = await open(t);
  const body = { project: 'garden' };
  const all = (request: (i: number) => ReturnType<TestService['request']>) =>
    Promise.all(Array.from({ length: 30 }, (_, i) => request(i)));
  const counts = (responses: { status: number }[]) =>
    [200, 404, 409].map((status) => responses.filter((one) => one.status === status).length);

  for (let round = 0; round < 3; round++) {
    t.strictSame(counts(await all(() => timesheet.request('POST', '/timer/start', { body }))), [1, 0, 29]);
    t.strictSame(counts(await all(() => timesheet.request('POST', '/timer/stop'))), [1, 29, 0]);
  }
  const mixed = await all((i) =>
    i % 3 === 0 ? createInvoice(timesheet) : addEntry(timesheet, '2030-01-31T09:00:00Z'),
  );
  t.ok(mixed.every(({ status }) => [200, 409].includes(status)));
  await createInvoice(timesheet);

  const entries = await read<Schemas['Entry'][]>(timesheet, '/projects/garden/entries');
  const invoices = (await read<Schemas['Invoice'][]>(timesheet, '/invoices')).reverse();
  t.equal(entries.length, 3 + 20);
  t.strictSame(
    invoices.map(({ number }) => Number(number)),
    invoices.map((_, i) => i + 1),
  );
  t.strictSame(invoices.flatMap((one) => one.entries).sort(), entries.map(({ id }) => id).sort());
  const seconds = entries.reduce((sum, entry) => sum + entry.seconds, 0);
  t.match(await read(timesheet, '/projects'), [{ seconds, billed: seconds }]);
});
