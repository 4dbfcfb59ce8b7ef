// Access tokens that handlers issue, list and revoke, through the service.
import t, { type Test } from 'tap';
import { shared, type ServiceContext } from '../../../dist/index.js';
import { openTestService } from '../../../dist/testing.js';
import { service } from '../../../../../dist/service.js';

/** The Plant Store, whose list of plants makes its caller known, and what its handlers can do with tokens. */
async function openService(t: Test) {
  let context: ServiceContext | undefined;
  const callers: unknown[] = [];
  const one = await openTestService({
    ...service,
    open: (given) => {
      context = given;
      const opened = service.open(given) as { handlers: Record<string, (request: never) => unknown> };
      const listPlants = (request: { caller: unknown }) => {
        callers.push(request.caller);
        return opened.handlers['listPlants']!(request as never);
      };
      return { ...opened, handlers: { ...opened.handlers, listPlants } as never };
    },
  });
  t.teardown(() => one.close());
  const tokens = context!.tokens;
  const list = async (token: string) => (await one.request('GET', '/plants', { token })).status;
  return { ...one, tokens, callers, list };
}

t.test(
  'a handler issues a token with scopes and an expiry, which its caller can find and revoke',
  async (t) => {
    const { tokens, callers, list, request, advance } = await openService(t);
    const before = Date.now();
    const issued = await tokens.issue('user 1', { scopes: ['plants:read'], expiresIn: 60_000 });
    t.match(issued.secret, /^pst_[\w-]{43}$/);
    t.ok(issued.expiresAt >= before + 60_000 && issued.expiresAt <= Date.now() + 60_000);
    t.equal(await list(issued.secret), 200);
    t.match(callers, [{ subject: 'user 1', scopes: ['plants:read'], tokenId: issued.id }]);
    const body = { id: 1, name: 'Ficus' };
    t.equal((await request('POST', '/plants', { token: issued.secret, body })).status, 403, 'another scope');

    const other = await tokens.issue('user 1', { scopes: [], expiresIn: 120_000 });
    const listed = await tokens.list('user 1');
    t.match(listed, [
      { id: issued.id, scopes: ['plants:read'] },
      { id: other.id, scopes: [] },
    ]);
    t.strictSame(
      listed.map(({ expiresAt }) => expiresAt),
      [issued.expiresAt, other.expiresAt],
    );
    t.notOk(JSON.stringify(listed).includes(issued.secret), 'without secrets');

    t.equal(await tokens.revoke('user 2', issued.id), false, 'a token of another subject');
    t.equal(await list(issued.secret), 200);
    t.equal(await tokens.revoke('user 1', issued.id), true);
    advance(5_000);
    t.equal(await list(issued.secret), 401, 'at most 5 seconds later');
    t.match(await tokens.list('user 1'), [{ id: other.id }]);
    advance(120_000);
    t.strictSame(await tokens.list('user 1'), [], 'expired');
  },
);

t.test('a verifier of the service takes access tokens, too, by tokens.verify', async (t) => {
  const { tokens, request, issueToken, advance } = await openService(t);
  const start = Date.now();
  const token = await tokens.issue('user 1', { scopes: ['plants:read'], expiresIn: 60_000 });
  const verified = { subject: 'user 1', scopes: ['plants:read'] };
  t.match(await tokens.verify(token.secret), verified);
  t.equal((await tokens.verify(token.secret))?.expiresAt, token.expiresAt);
  t.ok(token.expiresAt >= start + 60_000);
  t.match(await tokens.verify(await issueToken({ subject: 'operator' })), {
    subject: 'operator',
    expiresAt: undefined,
  });
  for (const other of ['', 'x', `${token.secret}x`, `${token.secret.slice(0, -1)}_`, 'pst_'])
    t.equal(await tokens.verify(other), undefined, other);
  advance(60_000);
  t.equal(await tokens.verify(token.secret), undefined, 'expired');
  const next = await tokens.issue('user 1', { scopes: [], expiresIn: 60_000 });
  await tokens.revoke('user 1', next.id);
  t.equal(await tokens.verify(next.secret), undefined, 'revoked');
  t.match(await request('GET', '/plants'), { status: 200 });
});

t.test('no credentials give the subject of shared documents', async (t) => {
  const { tokens, request, issueToken } = await openService(t);
  t.equal(shared('posts'), '\tposts');
  t.not(shared('a'), shared('A'));
  for (const name of ['', '\t', 'a\tb', '\n', 'a\0', '\ud800', 'x'.repeat(256)])
    t.throws(() => shared(name), TypeError, JSON.stringify(name));
  const subject = shared('posts');
  await t.rejects(tokens.issue(subject, { scopes: [], expiresIn: 1_000 }), TypeError);
  await t.rejects(issueToken({ subject }), TypeError, 'nor does an operator');
  t.equal((await request('GET', '/plants')).text, '[]');
});

t.test('tokens of handlers: what cannot be issued', async (t) => {
  const { tokens } = await openService(t);
  const options = { scopes: ['plants:read'], expiresIn: 1_000 };
  const subjects = ['', 'x'.repeat(256), 'a\nb', '\na\nb', '\tshared', 'a\0', '\ud800', '\u0085'];
  for (const subject of subjects) {
    await t.rejects(tokens.issue(subject, options), TypeError, JSON.stringify(subject));
    t.strictSame(await tokens.list(subject), []);
    t.equal(await tokens.revoke(subject, 'x'), false);
  }
  for (const scopes of [['plants'], ['plants:read', 'plants:read plants:write'], ['']])
    await t.rejects(tokens.issue('s', { ...options, scopes }), TypeError, scopes.join());
  for (const expiresIn of [0, -1, 0.5, NaN, Infinity, 8.64e15, undefined as never])
    await t.rejects(tokens.issue('s', { ...options, expiresIn }), TypeError, String(expiresIn));
  t.strictSame(await tokens.list('s'), []);
  for (const id of ['', 'x', '\0', '\ud800', 'x'.repeat(1_000)])
    t.equal(await tokens.revoke('s', id), false, JSON.stringify(id));
  await t.resolves(tokens.issue('s', options), 'it still works');
});
