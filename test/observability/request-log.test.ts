// The log: one line of JSON for each request, and for an outage no flood of lines.
import t from 'tap';
import { StorageError } from '../../dist/domain/storage.js';
import { scopes } from '../../dist/domain/tokens.js';
import { issueToken } from '../../dist/http/security/access-token.js';
import { engines } from '../support/engines.js';
import { injectFaults, startListening, startService } from '../support/service.js';

t.test(
  'whatever is requested by whomever, it is one line of JSON in the log, in the form of all its lines',
  async (t) => {
    const lines: string[] = [];
    const { app, open, storage } = await startListening(t, {
      logger: { stream: { write: (line: string) => lines.push(line) } },
    });
    lines.length = 0;
    app.log.info('the rest');
    const subject = 'é " \\ \u2028 {"a":1},';
    const { secret } = await issueToken(storage.tokens, { subject, scopes, now: Date.now() });
    const authorized = `Host: x\r\nAuthorization: Bearer ${secret}\r\n`;
    const connection = await open();
    connection.send(`GET /plants HTTP/1.1\r\n${authorized}X-Request-Id: named\r\n\r\n`);
    await connection.answer('GET', '/plants');
    connection.send('GET /"\\{%22%0a HTTP/1.1\r\nHost: x\r\nX-Request-Id: odd\r\nConnection: close\r\n\r\n');
    await connection.rest();
    await app.close();
    t.ok(lines.every((line) => line.indexOf('\n') === line.length - 1));
    const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    const rest = parsed[0]!;
    t.match(rest, { level: 30, time: Number, msg: 'the rest' });
    const lineOf = (requestId: string) => parsed.find((line) => line['requestId'] === requestId);
    for (const fields of [
      { requestId: 'named', method: 'GET', path: '/plants', status: 200, subject },
      { requestId: 'odd', method: 'GET', path: '/"\\{%22%0a', status: 404, error: 40401 },
    ]) {
      const line = lineOf(fields.requestId)!;
      const { time, ms } = line;
      t.strictSame(line, { ...rest, ...fields, time, ms, address: '127.0.0.1', msg: 'request' });
      t.match({ time, ms }, { time: Number, ms: Number });
    }
  },
);

t.test("a request's line passes through the logger's redaction and mixin", async (t) => {
  const lines: Record<string, unknown>[] = [];
  const { app, open, authorized } = await startListening(t, {
    logger: {
      redact: ['subject', 'address'],
      mixin: () => ({ region: 'north' }),
      stream: { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) },
    },
  });
  const connection = await open();
  connection.send(`GET /plants HTTP/1.1\r\n${authorized}Connection: close\r\n\r\n`);
  await connection.rest();
  await app.close();
  t.match(
    lines.find(({ msg }) => msg === 'request'),
    { path: '/plants', region: 'north', subject: '[Redacted]', address: '[Redacted]' },
  );
});

t.test('a log above level info has no line per request', async (t) => {
  const lines: string[] = [];
  const { app, open } = await startListening(t, {
    logger: { level: 'warn', stream: { write: (line: string) => lines.push(line) } },
  });
  const connection = await open();
  connection.send('GET /plants HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  await connection.rest();
  await app.close();
  app.log.warn('the rest');
  t.equal(lines.length, 1);
  t.match(lines, [/"msg":"the rest"/]);
});

t.test('an outage is logged once, then once a minute with a count, and when it is over', async (t) => {
  let clock = 0;
  let failure: Error | undefined;
  let lines: Record<string, unknown>[] = [];
  const { call, token } = await startService(t, engines[0]!, {
    wrap: injectFaults(({ plants }) => ({
      plants: {
        list: (...all) => (failure === undefined ? plants.list(...all) : Promise.reject(failure)),
      },
    })),
    monotonic: () => clock,
    logger: { stream: { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) } },
  });
  /** Sends a request, and returns what it adds to the log. */
  const logged = async () => {
    lines = [];
    await call('GET', '/plants', { token });
    return lines.map(({ level, method, msg, error, requests, seconds, err }) => ({
      level,
      about: method === undefined ? msg : 'this request',
      ...{ error, requests, seconds },
      stack: (err as { stack?: string } | undefined)?.stack !== undefined,
    }));
  };
  const line = { error: undefined, requests: undefined, seconds: undefined, stack: false };
  const served = { ...line, level: 30, about: 'this request' };
  const refused = { ...line, level: 40, about: 'this request', error: 50300 };
  const shown = (requests: number) => ({ ...line, level: 50, about: 'requests fail', requests, stack: true });

  t.strictSame(await logged(), [served]);
  failure = new StorageError('unavailable', 'PostgreSQL: gone');
  t.strictSame(await logged(), [shown(1), refused]);
  for (let i = 0; i < 10; i++) t.strictSame(await logged(), [refused], 'counted, without a stack');
  clock += 60_000;
  t.strictSame(await logged(), [shown(12), refused], 'it goes on');
  failure = new StorageError('unknown-outcome', 'PostgreSQL: no answer');
  t.strictSame(await logged(), [shown(1), { ...refused, error: 50302 }], 'another kind is another outage');
  failure = undefined;
  clock += 9_999;
  t.strictSame(await logged(), [served], 'it may come back');
  clock += 1;
  const over = { ...line, level: 40, about: 'requests fail no longer' };
  t.strictSame(await logged(), [
    { ...over, error: 50300, requests: 12, seconds: 60 },
    { ...over, error: 50302, requests: 1, seconds: 0 },
    served,
  ]);
  t.strictSame(await logged(), [served]);
  failure = new Error('a fault of the program');
  const fault = { ...line, level: 50, about: 'request failed', stack: true };
  for (let i = 0; i < 3; i++) {
    t.strictSame(await logged(), [fault, { ...refused, level: 50, error: 50000 }], 'a 500 is always shown');
  }
});
