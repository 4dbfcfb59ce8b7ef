// The metrics of several workers together: every worker counts exactly once, whenever it ends.
import { Counter, Registry } from 'prom-client';
import t from 'tap';
import { GatheredMetrics, type Measured, type Source } from '../../dist/observability/gathered-metrics.js';

/** A worker that has counted some requests; its response waits until the test lets it go. */
function workerWith(requests: number) {
  const registry = new Registry();
  new Counter({ name: 'requests_total', help: 'Requests.', registers: [registry] }).inc(requests);
  let respond: (() => Promise<void>)[] = [];
  const source: Source = {
    measure: () =>
      new Promise<Measured>((resolve) => {
        respond.push(async () => {
          resolve(await registry.getMetricsAsJSON());
        });
      }),
  };
  return {
    source,
    respond: async () => {
      const all = respond;
      respond = [];
      for (const one of all) await one();
    },
  };
}

/** The value of a metric without labels. */
const valueOf = (text: string, name: string) =>
  Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);

t.test('a worker that dies while another one is awaited counts once', async (t) => {
  const dying = workerWith(5);
  const other = workerWith(2);
  let serving = [dying.source, other.source];
  const gathered = new GatheredMetrics(new Registry(), () => serving);
  const scrape = async (...between: (() => unknown)[]) => {
    const text = gathered.metrics();
    for (const step of between) await step();
    return text;
  };
  t.equal(valueOf(await scrape(dying.respond, other.respond), 'requests_total'), 7);
  const dies = () => {
    serving = [other.source];
    gathered.replace(dying.source);
  };
  const text = await scrape(dying.respond, dies, other.respond);
  t.equal(valueOf(text, 'requests_total'), 7);
  t.equal(valueOf(text, 'plant_store_worker_restarts_total'), 1);
  t.equal(
    valueOf(await scrape(other.respond), 'requests_total'),
    7,
    'nor does a later scrape count it twice',
  );
});

t.test('workers that die together all keep their counts', async (t) => {
  const workers = [1, 2, 4].map(workerWith);
  let serving = workers.map(({ source }) => source);
  const gathered = new GatheredMetrics(new Registry(), () => serving);
  const first = gathered.metrics();
  for (const { respond } of workers) await respond();
  t.equal(valueOf(await first, 'requests_total'), 7);
  serving = [];
  for (const { source } of workers) gathered.replace(source);
  const both = await Promise.all([gathered.metrics(), gathered.metrics()]);
  for (const text of [...both, await gathered.metrics()]) t.equal(valueOf(text, 'requests_total'), 7);
});

t.test('a worker that leaves service keeps its counts until it is replaced', async (t) => {
  const leaving = workerWith(3);
  let serving = [leaving.source];
  const gathered = new GatheredMetrics(new Registry(), () => serving);
  const first = gathered.metrics();
  await leaving.respond();
  t.equal(valueOf(await first, 'requests_total'), 3);
  serving = [];
  t.equal(valueOf(await gathered.metrics(), 'requests_total'), 3);
  gathered.replace(leaving.source);
  t.equal(valueOf(await gathered.metrics(), 'requests_total'), 3);
});
