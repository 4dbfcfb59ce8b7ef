// Access tokens: which requests they authorize, and for how long; and that the contract determines it.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { engines } from '../../support/engines.js';
import { captureLog, injectFaults, startService } from '../../support/service.js';
import { contract } from '../../support/contract-check.js';
import { StorageError } from '../../../dist/index.js';
import { allErrors } from '../../../../../dist/plants/errors.js';
import { issueToken, scopes } from '../../support/store.js';
import { withResolvers } from '../../support/wait.js';

const engine = engines[0]!;
/** Every operation of the contract, with HEAD for each GET: its method, a path and its scope. */
const operations = contract.operations.flatMap(({ method, path, requiredScope }) =>
  (method === 'GET' ? (['GET', 'HEAD'] as const) : [method as 'POST' | 'DELETE']).map(
    (name) => [name, path.replace('{id}', '1'), requiredScope as (typeof scopes)[number]] as const,
  ),
);

t.test('every operation returns 401 invalid_token for an invalid token, and the log says why', async (t) => {
  const { lines, logger } = captureLog();
  const { call, token, issue, storage, subject } = await startService(t, engine, { logger });
  const revoked = await issueToken(storage.tokens, { subject, scopes, now: Date.now() });
  await storage.tokens.revoke(revoked.token.id);
  const malformed = ['', 'x', token.slice(0, -1), `${token}A`, `${token} ${token}`, `${token},`, 'ä'];
  const bad: [token: string, reason: string][] = [
    [await issue(subject, { expiresAt: Date.now() }), 'expired'],
    [revoked.secret, 'revoked'],
    [`pst_${'A'.repeat(43)}`, 'unknown'],
    ...malformed.map((given): [string, string] => [given, 'malformed']),
  ];
  const details: Record<string, string> = { expired: 'it has expired' };
  for (const [given, reason] of bad) {
    const isToken = /^[\w-]+$/.test(given);
    const detail = isToken ? details[reason] : 'the header must have the form "Authorization: Bearer TOKEN"';
    const general = allErrors.invalidToken.message;
    const message = detail === undefined ? general : `${general.slice(0, -1)}: ${detail}.`;
    for (const [method, url] of operations) {
      const response = await call(method, url, { token: given });
      t.equal(response.status, 401, `${method} with ${given.slice(0, 8)}`);
      t.equal(response.headers['www-authenticate'], 'Bearer realm="plant-store", error="invalid_token"');
      t.match(lines.at(-1), { level: 30, msg: 'request', status: 401, reason });
      if (method !== 'HEAD') t.strictSame(response.json, { error: 40101, message });
    }
  }
});

t.test('every operation returns 403 insufficient_scope for a token without the required scope', async (t) => {
  const { lines, logger } = captureLog();
  const { call, issue, subject } = await startService(t, engine, { logger });
  for (const [method, url, needed] of operations) {
    const lacking = await issue(subject, { scopes: scopes.filter((scope) => scope !== needed) });
    const response = await call(method, url, { token: lacking, headers: { 'content-type': 'text/plain' } });
    t.equal(response.status, 403, `${method} ${url}`);
    t.match(
      lines.at(-1),
      { msg: 'request', status: 403, subject, tokenId: String },
      'the log names the caller',
    );
    t.equal(
      response.headers['www-authenticate'],
      `Bearer realm="plant-store", error="insufficient_scope", scope="${needed}"`,
    );
    const sufficient = await issue(subject, { scopes: [needed] });
    t.not((await call(method, url, { token: sufficient })).status, 403);
  }
});

t.test('a token works immediately, and only until it expires or is revoked', async (t) => {
  let now = 1_800_000_000_000;
  const { call, storage, subject } = await startService(t, engine, { now: () => now, monotonic: () => now });
  const status = async (token: string) => (await call('GET', '/plants', { token })).status;
  const { secret } = await issueToken(storage.tokens, { subject, scopes, now, expiresAt: now + 10_000 });
  t.equal(await status(secret), 200);
  now += 9_999;
  t.equal(await status(secret), 200);
  now += 1;
  t.equal(await status(secret), 401, 'it expires on time, although it was seen just before');

  const other = await issueToken(storage.tokens, { subject, scopes, now });
  t.equal(await status(other.secret), 200);
  await storage.tokens.revoke(other.token.id);
  now += 5_000;
  t.equal(await status(other.secret), 401, 'a revoked one stops within five seconds');
});

t.test('lookups of tokens are bounded, equal ones share theirs, and known ones need none', async (t) => {
  const { promise: released, resolve: release } = withResolvers();
  let lookups = 0;
  const wrap = injectFaults(({ tokens }) => ({
    tokens: {
      find: async (hashes) => {
        if (++lookups > 1) await released;
        return tokens.find(hashes);
      },
    },
  }));
  const { call, token } = await startService(t, engine, { wrap, monotonic: () => 0 });
  const status = async (given: string) => (await call('GET', '/plants', { token: given })).status;
  t.equal(await status(token), 200);
  const madeUp = () => `pst_${randomBytes(32).toString('base64url')}`;
  const invented = Array.from({ length: 1_000 }, madeUp);
  const flood = [...invented, ...invented].map(status);
  const beyond = status(madeUp());
  t.equal(await status(token), 200, 'a known caller waits for nothing');
  t.equal(await beyond, 503);
  t.equal(lookups, 1_001);
  release();
  t.strictSame(new Set(await Promise.all(flood)), new Set([401]));
  t.equal(await status(madeUp()), 401);
});

t.test('a failure of the token store returns 503, not 401', async (t) => {
  const find = () => Promise.reject(new StorageError('unavailable', 'secret'));
  const failing = injectFaults(() => ({ tokens: { find } }));
  const { call, token } = await startService(t, engine, { wrap: failing });
  const response = await call('GET', '/plants', { token });
  t.strictSame(response.json, { error: 50300, message: allErrors.unavailable.message });
  t.equal(response.headers['www-authenticate'], undefined);
});

t.test('no secret is in the log', async (t) => {
  const { lines, logger } = captureLog('trace');
  const { call, token } = await startService(t, engine, { logger });
  const body = { id: 1, name: 'a secret name' };
  const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
  await call('POST', '/plants', { token, body, headers: { 'x-request-id': 'mine-1' } });
  await call('GET', `/plants?access_token=${token}`, { token, headers: { traceparent } });
  await call('GET', '/plants', { token: `${token}x` });
  const odd = { 'x-request-id': 'not a good one', traceparent: 'neither' };
  await call('GET', '/plants', { token, headers: odd });
  t.notMatch(JSON.stringify(lines), token);
  t.notMatch(JSON.stringify(lines), 'a secret name');
  const requests = lines.filter(({ requestId }) => requestId !== undefined);
  t.equal(requests.length, 4, 'one line a request');
  t.match(requests, [
    { requestId: 'mine-1', method: 'POST', path: '/plants', status: 200 },
    { method: 'GET', path: '/plants', status: 400, error: 40006, traceparent },
    { status: 401, error: 40101 },
    { requestId: /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/, status: 200, traceparent: 'neither' },
  ]);
});

t.test('the error codes of the contract are those of the catalogue', async (t) => {
  const components = contract.document['components'] as {
    schemas: { Error: { description: string; 'x-error-codes': Record<string, number> } };
  };
  const { description, 'x-error-codes': names } = components.schemas.Error;
  const rows = [...description.matchAll(/^\| (\d{5}) \| (.+) \|$/gm)].map(([, code, message]) => ({
    code: Number(code),
    message,
  }));
  // No operation of the Plant Store has a header that can be wrong.
  const { invalidHeader, ...others } = allErrors;
  t.equal(invalidHeader.code, 40012);
  t.strictSame(
    rows,
    Object.values(others).sort((a, b) => a.code - b.code),
  );
  t.strictSame(names, Object.fromEntries(Object.entries(others).map(([name, { code }]) => [name, code])));
});
