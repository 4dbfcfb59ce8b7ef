// In every runtime, also in those that send a request again by themselves when a connection is lost, the client never says
// of a write that it had no effect when it had one, nor the reverse.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import t, { type Test } from 'tap';
import { noBrowser, startBrowser } from '../../server/test/support/browser.js';
import { startCuttingProxy, type Fate } from '../../server/test/support/cutting-proxy.js';
import { startListening } from '../../server/test/support/service.js';
import { lacks, skipFor } from '../../server/test/support/skip.js';
import type * as Program from './support/lossy-calls.js';
import type { Place, Report } from './support/lossy-calls.js';

const possible: Fate[] = ['pass', 'lose request', 'cut request', 'lose response', 'cut response', 'cut body'];
const service = await startListening(t, {});

/** The program and the client in one module. */
async function bundle(): Promise<string> {
  const entryPoints = [new URL('../test/support/lossy-calls.ts', import.meta.url).pathname];
  const options = { bundle: true, write: false, format: 'esm', platform: 'browser' } as const;
  return (await build({ ...options, entryPoints })).outputFiles[0]!.text;
}
const program = await bundle();

/** Runs the program, and returns its reports and the headers that the client sent. */
async function observe(t: Test, run: (place: Place) => Promise<Report[]>) {
  const token = await service.issue(t.name);
  const { url, fates } = await startCuttingProxy(t, service.port);
  let headers: IncomingHttpHeaders = {};
  const answer = async (path: string): Promise<unknown> => {
    if (path === '/fates') return possible;
    if (path === '/plants') return [];
    const [, , fate, name] = decodeURIComponent(path).split('/');
    fates.splice(0, fates.length, ...(fate === 'pass' ? [] : [fate as Fate]));
    const { json } = await service.call('GET', '/plants', { token });
    return (json as { name: string }[]).some((plant) => plant.name === name);
  };
  const test = createServer((request, response) => {
    if (request.method === 'GET') headers = request.headers;
    response
      .setHeader('access-control-allow-origin', '*')
      .setHeader('access-control-allow-headers', '*, authorization');
    response.setHeader('content-type', 'application/json');
    void answer(request.url!).then((value) => response.end(JSON.stringify(value)));
  }).listen(0, '127.0.0.1');
  await once(test, 'listening');
  t.teardown(() => test.close());
  const place = { service: url, test: `http://127.0.0.1:${(test.address() as AddressInfo).port}`, token };
  return { reports: await run(place), headers };
}

/** @param sendsAgain - Whether the runtime sends requests again by itself. */
function check(t: Test, reports: Report[], sendsAgain: boolean): void {
  t.equal(reports.length, 2 * possible.length * 6);
  for (const report of reports) {
    const { call, fate, retries, failed, kind, mayHaveTakenEffect, before, after } = report;
    const name = JSON.stringify(report);
    if (!failed) t.equal(after, call === 'create', name);
    else if (!mayHaveTakenEffect) t.equal(after, before, name);
    const isDone = before === (call === 'create');
    const repeated = call === 'create' ? 'plantExists' : 'plantNotFound';
    if (isDone && fate === 'pass') t.match(report, { kind: repeated, mayHaveTakenEffect: sendsAgain }, name);
    else if (retries > 0 && failed) t.ok(sendsAgain && mayHaveTakenEffect, name);
    if (kind !== undefined) t.equal(kind, repeated, name);
  }
}

/** Runs the program with a command, such as `deno run`. */
const execute =
  (file: string, argv: string[]) =>
  async (place: Place): Promise<Report[]> => {
    const call = `console.log(JSON.stringify(await callWithLosses(${JSON.stringify(place)})));`;
    const module = `data:text/javascript;base64,${Buffer.from(`${program}\n${call}`).toString('base64')}`;
    const { stdout } = await promisify(execFile)(file, [...argv, `await import('${module}')`]);
    return JSON.parse(stdout) as Report[];
  };

t.test('on Node.js, what the client says of a write is true', async (t) => {
  const { reports, headers } = await observe(t, execute(process.execPath, ['--input-type=module', '--eval']));
  check(t, reports, false);
  t.match(headers, { 'user-agent': /^plant-store-client\/\d+\.\d+\.\d+$/, 'x-mine': 'a', 'x-yours': 'b' });
});

for (const [name, command, argv] of [
  ['Deno', 'deno', ['eval']],
  ['Bun', 'bun', ['--eval']],
] as const)
  t.test(
    `in ${name}, what the client says of a write is true`,
    skipFor(lacks(command), { alsoInCi: true }),
    async (t) => {
      const { reports, headers } = await observe(t, execute(command, [...argv]));
      check(t, reports, true);
      t.match(headers, { 'user-agent': /^plant-store-client\//, 'x-mine': 'a', 'x-yours': 'b' });
    },
  );

t.test('in Chromium, what the client says of a write is true', skipFor(noBrowser), async (t) => {
  const { reports, headers } = await observe(t, async (place) => {
    // On a page of the service, there are no preflights that lose their connection.
    const page = await (await startBrowser(t)).newPage({ bypassCSP: true });
    await page.goto(`${place.service}/docs/`);
    await page.route('**/program.js', (route) =>
      route.fulfill({ contentType: 'text/javascript', body: program }),
    );
    return page.evaluate(async (place) => {
      const module = '/program.js';
      return ((await import(module)) as typeof Program).callWithLosses(place);
    }, place);
  });
  check(t, reports, true);
  t.match(headers, { 'user-agent': /^Mozilla/, 'x-client': /^plant-store-client\//, 'x-mine': 'a' });
});
