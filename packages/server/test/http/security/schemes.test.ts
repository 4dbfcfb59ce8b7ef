// Security schemes of every kind, each with a verifier of the service or the built-in one: whom they admit, and that
// neither an attacker nor a verifier that fails, hangs or lies makes them admit anybody else.
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { engines } from '../../support/engines.js';
import { contractOf } from '../../support/contract-check.js';
import { captureLog, startService, type ServiceOptions } from '../../support/service.js';
import {
  ApiError,
  StorageError,
  type AnyOpened,
  type Caller,
  type Opened,
  type Verified,
  type Verifiers,
} from '../../../dist/index.js';
import { service as definition } from '../../../../../dist/service.js';
import type { operations, operationSecurity, securitySchemes } from '../../support/garden/types.gen.js';

const engine = engines[0]!;

/** What the contract's schemes are, by their names. */
const schemes = {
  user: { type: 'http', scheme: 'bearer' },
  admin: { type: 'http', scheme: 'Bearer' },
  basic: { type: 'http', scheme: 'basic' },
  key: { type: 'apiKey', in: 'header', name: 'X-Key' },
  queryKey: { type: 'apiKey', in: 'query', name: 'key' },
  cookieKey: { type: 'apiKey', in: 'cookie', name: 'constructor' },
  oauth: { type: 'oauth2', flows: {} },
  oidc: { type: 'openIdConnect', openIdConnectUrl: 'https://example.org/' },
  digest: { type: 'http', scheme: 'Digest' },
} as const;
type Scheme = keyof typeof schemes;
type AnyVerifiers = NonNullable<AnyOpened['verifiers']>;

const operation = (operationId: string, security: object[]) => ({
  get: {
    operationId,
    security,
    responses: {
      200: { description: 'Who calls.', content: { 'application/json': { schema: { type: 'object' } } } },
      default: {
        description: 'An error.',
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
      },
    },
  },
});

/** The contract: an operation for each scheme, and some for several. */
const documentOf = (securitySchemes: object, paths: Record<string, object[]>) => ({
  openapi: '3.1.0',
  info: { title: 'Schemes', version: '1' },
  paths: Object.fromEntries(
    Object.entries(paths).map(([name, security]) => [`/${name}`, operation(name, security)]),
  ),
  components: {
    securitySchemes,
    schemas: {
      Error: {
        type: 'object',
        required: ['error', 'message'],
        properties: { error: { type: 'integer', format: 'int32' }, message: { type: 'string' } },
      },
    },
  },
});

const own = Object.keys(schemes).map((name): [string, object[]] => [name, [{ [name]: [] }]]);
const document = documentOf(schemes, {
  ...Object.fromEntries(own),
  either: [{ basic: [] }, { user: [] }, { key: [] }],
  tokens: [{ oauth: [] }, { user: [] }],
  both: [{ key: [], basic: ['plants:read'] }],
  optional: [{}, { key: [] }],
});
const contract = contractOf(document);
const operationIds = contract.operations.map(({ operationId }) => operationId);
/** The handlers return what they know of the caller. */
const handlers = Object.fromEntries(
  operationIds.map((name) => [
    name,
    ({ caller }: { caller?: object | null }) => Promise.resolve({ caller: caller ?? null }),
  ]),
);

const base64 = (text: string) => Buffer.from(text).toString('base64');
const password = 'open: "sesame"\\é';
/** A valid credential of each scheme but `user`, as a request has it. */
const valid: Record<Exclude<Scheme, 'user'>, { url?: string; headers?: Record<string, string> }> = {
  admin: { headers: { authorization: 'Bearer the-admins' } },
  basic: { headers: { authorization: `BASIC  ${base64(`alice:${password}`)}` } },
  key: { headers: { 'x-key': 'k1' } },
  queryKey: { url: '?key=k+2' },
  cookieKey: { headers: { cookie: 'a=b; constructor=k%203' } },
  oauth: { headers: { authorization: 'bearer o.1' } },
  oidc: { headers: { authorization: 'Bearer i~1' } },
  digest: { headers: { authorization: 'Digest username="alice", response="x"' } },
};

/** Verifiers that admit these credentials as `alice`, and remember what they were asked. */
function createVerifiers() {
  const asked: unknown[] = [];
  const admit = (expected: unknown) => (credential: unknown) => {
    asked.push(credential);
    const isRight = JSON.stringify(credential) === JSON.stringify(expected);
    return isRight ? { subject: 'alice', scopes: ['plants:read', 'unknown'] } : undefined;
  };
  const verifiers: AnyVerifiers = {
    user: 'built-in',
    admin: admit('the-admins'),
    basic: admit({ username: 'alice', password }),
    key: admit('k1'),
    queryKey: admit('k 2'),
    cookieKey: admit('k 3'),
    oauth: admit('o.1'),
    oidc: admit('i~1'),
    digest: admit('username="alice", response="x"'),
  };
  return { verifiers, asked };
}

/** Serves the contract. */
async function start(t: Test, options: ServiceOptions = {}) {
  const { verifiers, asked } = createVerifiers();
  const service = await startService(t, engine, {
    contract,
    handlers,
    ...options,
    verifiers: { ...verifiers, ...options.verifiers },
  });
  const get = (name: string, { url = '', headers = {} }: (typeof valid)['key'] = {}) =>
    service.call('GET', `/${name}${url}`, { headers });
  return { ...service, asked, get };
}

/** No verifiers but those of these schemes. */
const allBut = (...names: Scheme[]): AnyVerifiers =>
  Object.fromEntries(
    Object.keys(schemes).flatMap((name) => (names.includes(name as Scheme) ? [] : [[name, undefined]])),
  );

const callerOf = (json: unknown) => (json as { caller: { subject: string; scopes: string[] } | null }).caller;
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
const noOne = { status: 401 };

t.test('a contract with schemes of every kind is served, and their subjects differ', async (t) => {
  const { get, token, subject, issue } = await start(t);
  const alice = await issue('alice');
  t.match(callerOf((await get('user', bearer(token))).json), { subject });
  const subjects = new Set([callerOf((await get('user', bearer(alice))).json)?.subject]);
  for (const [name, credential] of Object.entries(valid)) {
    const { status, json } = await get(name, credential);
    t.equal(status, 200, name);
    const caller = callerOf(json);
    const expected = { subject: `\n${name}\nalice`, id: 'alice', scheme: name, scopes: ['plants:read'] };
    t.strictSame(caller, expected, 'with known scopes');
    subjects.add(caller?.subject);
  }
  t.equal(subjects.size, 9, 'no two callers are the same');
});

t.test('handlers get the credential of a scheme for which the service asks, and no log has it', async (t) => {
  const { lines, logger } = captureLog('trace');
  const seen: unknown[] = [];
  const remember = ({ caller }: { caller?: Caller | null }) => {
    seen.push([caller?.scheme, caller?.credential?.()]);
    logger.info({ caller }, 'called');
    return Promise.resolve({});
  };
  const { get, token } = await start(t, {
    handlers: Object.fromEntries(operationIds.map((name) => [name, remember])),
    opened: { credentialSchemes: ['user', 'queryKey', 'basic'] },
    logger,
  });
  // The second time, the credential is known.
  for (let i = 0; i < 2; i++) {
    await get('user', bearer(token));
    for (const name of ['queryKey', 'basic', 'key'] as const) await get(name, valid[name]);
  }
  const first = [
    ['user', token],
    ['queryKey', 'k 2'],
    ['basic', base64(`alice:${password}`)],
    ['key', undefined],
  ];
  t.strictSame(seen, [...first, ...first]);
  t.ok(lines.some(({ msg }) => msg === 'called'));
  t.notMatch(JSON.stringify(lines), new RegExp([token, base64(`alice:${password}`), 'k.2'].join('|')));
});

t.test('a credential opens the operations of its own scheme only', async (t) => {
  const { get, token, asked } = await start(t);
  const credentials = { user: bearer(token), ...valid };
  for (const name of Object.keys(schemes)) {
    for (const [other, credential] of Object.entries(credentials)) {
      const { status } = await get(name, name === 'queryKey' ? credential : { ...credential, url: '' });
      t.equal(status, name === other ? 200 : 401, `${other} at ${name}`);
    }
  }
  t.notOk(asked.includes(token), "the service's own tokens are shown to no other verifier");
  t.match(await get('tokens', bearer(token)), { status: 200 }, 'nor where both are accepted');
  t.notOk(asked.includes(token));
});

t.test('a 401 challenges for each scheme that the operation accepts', async (t) => {
  const { get } = await start(t);
  const bearerChallenge = 'Bearer realm="plant-store"';
  const basicChallenge = 'Basic realm="plant-store", charset="UTF-8"';
  const invalid = `${bearerChallenge}, error="invalid_token"`;
  const cases: [name: string, credential: object, challenge: string | undefined, code: number][] = [
    ['admin', {}, bearerChallenge, 40100],
    ['admin', { headers: { authorization: 'Basic YTpi' } }, bearerChallenge, 40100],
    ['admin', { headers: { authorization: 'Bearerx' } }, bearerChallenge, 40100],
    ['admin', bearer('x'), invalid, 40101],
    ['oauth', bearer('x'), invalid, 40101],
    ['basic', {}, basicChallenge, 40100],
    ['basic', { headers: { authorization: 'Basic x' } }, basicChallenge, 40101],
    ['key', {}, undefined, 40100],
    ['key', { headers: { 'x-key': 'x' } }, undefined, 40101],
    ['digest', {}, 'digest realm="plant-store"', 40100],
    ['either', {}, `${basicChallenge}, ${bearerChallenge}`, 40100],
    ['either', bearer('x'), `${basicChallenge}, ${invalid}`, 40101],
    ['either', { headers: { 'x-key': 'x' } }, `${basicChallenge}, ${bearerChallenge}`, 40101],
    ['optional', { headers: { 'x-key': '' } }, undefined, 40101],
  ];
  for (const [name, credential, challenge, error] of cases) {
    const { status, headers, json } = await get(name, credential);
    const found = {
      status,
      challenge: headers['www-authenticate'],
      error: (json as { error: number }).error,
    };
    t.strictSame(found, { status: 401, challenge, error }, `${name} ${JSON.stringify(credential)}`);
    const kind = ['admin', 'oauth'].includes(name) ? 'access token' : 'credentials';
    if (name !== 'either') t.match((json as { message: string }).message, `The ${kind}`);
  }
  t.match(await get('optional'), { status: 200, json: { caller: null } });
  const both = { headers: { ...valid.key.headers, ...valid.basic.headers } };
  t.match(callerOf((await get('both', both)).json)?.subject, '\nkey\nalice', 'the first one identifies');
  t.match(await get('both', valid.key), { status: 401, headers: { 'www-authenticate': basicChallenge } });
});

t.test('a 401 that a handler throws challenges too, in a public operation for all schemes', async (t) => {
  const { user, basic, key } = schemes;
  const paths = { mine: [{ user: [] }], keyed: [{ key: [] }], logIn: [], either: [{}, { basic: [] }] };
  const contract = contractOf(documentOf({ user, basic, key }, paths));
  let headers: Record<string, string> = {};
  const wrongPassword = { code: 40150, message: 'The password is wrong.' };
  const refuse = () => {
    throw new ApiError(wrongPassword, { detail: 'again', headers });
  };
  const { get, token } = await start(t, {
    contract,
    handlers: { mine: refuse, keyed: refuse, logIn: refuse, either: refuse },
    service: { ...definition, errors: { wrongPassword } },
    verifiers: allBut('user', 'basic', 'key'),
  });
  const challengeOf = async (name: string, credential: object = {}) => {
    const { status, text, headers } = await get(name, credential);
    t.equal(status, 401, name);
    t.equal(text, '{"error":40150,"message":"The password is wrong: again."}');
    return headers['www-authenticate'];
  };
  const bearerChallenge = 'Bearer realm="plant-store"';
  const basicChallenge = 'Basic realm="plant-store", charset="UTF-8"';
  t.equal(await challengeOf('mine', bearer(token)), bearerChallenge);
  t.equal(await challengeOf('keyed', valid.key), undefined, 'an API key has no challenge');
  t.equal(await challengeOf('either'), basicChallenge, 'without credentials, which it takes');
  t.equal(await challengeOf('logIn'), `${bearerChallenge}, ${basicChallenge}`);
  headers = { 'WWW-Authenticate': 'Form realm="login"' };
  t.equal(await challengeOf('logIn'), 'Form realm="login"', 'or what the handler says');
});

t.test('a scope that a scheme without tokens does not grant is a 403 without a challenge', async (t) => {
  const basic = () => ({ subject: 'alice' });
  const { get } = await start(t, { verifiers: { basic } });
  const both = { headers: { ...valid.key.headers, ...valid.basic.headers } };
  t.match(await get('both', both), {
    status: 403,
    headers: { 'www-authenticate': undefined },
    json: { error: 40300, message: /^The caller lacks the scope that the operation needs: / },
  });
});

t.test('malformed credentials are refused without asking the verifier', async (t) => {
  const { get, asked } = await start(t);
  const nonUtf8 = Buffer.from([0x61, 0x3a, 0xff]).toString('base64');
  const basics = ['', 'x', '====', base64('alice'), base64('a:\u0000'), `${base64('a:b')} x`, nonUtf8];
  for (const text of basics)
    t.match(await get('basic', { headers: { authorization: `Basic ${text}` } }), noOne, text);
  for (const text of ['', 'a b', 'ä', '"x"'])
    t.match(await get('oauth', { headers: { authorization: `Bearer ${text}` } }), noOne, text);
  for (const url of ['?key=', '?key=k+2&key=k+2', '?key', '?__proto__=k+2'])
    t.match(await get('queryKey', { url }), noOne, url);
  for (const cookie of ['constructor=', 'constructor=a; constructor=a', 'constructor', ''])
    t.match(await get('cookieKey', { headers: { cookie } }), noOne, cookie);
  t.match(await get('key', { headers: { 'x-key': '' } }), noOne);
  t.strictSame(asked, []);
});

t.test('forged credentials admit nobody', async (t) => {
  const { get } = await start(t);
  const characters = fc.constantFrom(...Array.from('aA0.~+/=:; "k123\\o'));
  const forged = fc.tuple(
    fc.constantFrom(...Object.keys(schemes), 'either', 'tokens', 'both'),
    fc.constantFrom('Bearer', 'basic', 'Digest', 'Negotiate', ''),
    fc.string({ unit: characters, maxLength: 40 }),
  );
  await fc.assert(
    fc.asyncProperty(forged, async ([name, scheme, text]) => {
      const headers = { authorization: `${scheme} ${text}`, 'x-key': text, cookie: `constructor=${text}` };
      fc.pre(!['k1', 'o.1'].includes(text.trim()));
      const { status } = await get(name, { url: `?key=${encodeURIComponent(text)}`, headers });
      return status === 401 || (name !== 'queryKey' && status === 400);
    }),
    { numRuns: 300 },
  );
});

t.test('what a verifier says is used for three seconds, and asked by one request at a time', async (t) => {
  let now = 1_800_000_000_000;
  let asked = 0;
  let verified: Verified | undefined = { subject: 'alice', expiresAt: now + 10_000 };
  const key = () => {
    asked++;
    return Promise.resolve(verified);
  };
  const clock = () => now;
  const { get } = await start(t, { verifiers: { key }, now: clock, monotonic: clock });
  const status = async () => (await get('key', valid.key)).status;
  t.strictSame(
    await Promise.all(Array.from({ length: 20 }, status)),
    Array.from({ length: 20 }, () => 200),
  );
  t.equal(asked, 1);
  verified = undefined;
  now += 3_001;
  t.strictSame([await status(), asked], [401, 2], 'it has changed its mind');
  t.strictSame([await status(), asked], [401, 3], 'what is not valid is not remembered');
  verified = { subject: 'bob', expiresAt: now + 100 };
  t.strictSame([await status(), asked], [200, 4]);
  now += 100;
  t.strictSame([await status(), asked], [401, 4], 'it has expired');
});

t.test('whatever a verifier throws or returns, the response is 503', async (t) => {
  const { lines, logger } = captureLog();
  let answer: () => unknown = () => undefined;
  const lie = () => answer() as undefined;
  const { get } = await start(t, { verifiers: { key: lie, basic: lie }, logger });
  const unprintable = Object.defineProperty({}, 'subject', {
    get() {
      throw new Error('no');
    },
  });
  const secret = 'k:"1\\secret';
  const alice = { subject: 'alice' };
  const returned: unknown[] = [
    ...[true, 'alice', Symbol('alice'), {}, () => alice, unprintable],
    ...['', 'x'.repeat(256), 'a\0b', 7, null, { toString: () => 'alice' }].map((subject) => ({ subject })),
    ...['plants:read', { includes: () => true }, null].map((scopes) => ({ ...alice, scopes })),
    ...[NaN, '9999999999999', new Date(), null, 1n].map((expiresAt) => ({ ...alice, expiresAt })),
  ];
  const thrown: unknown[] = [
    new Error(`no connection to https://example.org/?key=${encodeURIComponent(secret)}`),
    new ApiError('insufficientScope', { detail: secret }),
    ...[undefined, secret, { status: 401, secret }, Object.create(null) as unknown],
  ];
  const throwing = (error: unknown) => () => {
    throw error;
  };
  const cases = [
    ...returned.flatMap((value) => [() => value, () => Promise.resolve(value)]),
    ...thrown.flatMap((error) => [throwing(error), () => Promise.reject(error)]),
  ];
  for (const [i, one] of cases.entries()) {
    answer = one;
    const headers = { 'www-authenticate': undefined };
    const response = await get('key', { headers: { 'x-key': secret } });
    t.match(response, { status: 503, json: { error: 50300 }, headers }, `case ${i}`);
  }
  answer = throwing(new Error('no connection'));
  const basic = { headers: { authorization: `Basic ${base64(`alice:${secret}`)}` } };
  t.match(await get('either', basic), { status: 503 }, 'not the 401 of the next one');
  const key = { headers: { 'x-key': secret } };
  t.match(await get('optional', key), { status: 503 }, 'nor is the caller taken for one without credentials');
  t.match(JSON.stringify(lines), 'the verifier of key failed: the subject has not', 'in the log');
  t.notMatch(JSON.stringify(lines), 'secret');
  answer = throwing(new StorageError('overloaded', 'full'));
  t.match(await get('key', key), { status: 503, json: { error: 50301 } });
  answer = () => null;
  t.match(await get('key', key), noOne);
});

t.test('a verifier that hangs is given up, and other callers do not wait for it', async (t) => {
  const signals: AbortSignal[] = [];
  const key = (_: string, signal: AbortSignal) => {
    signals.push(signal);
    return new Promise<undefined>(() => undefined);
  };
  const { get, token } = await start(t, { verifiers: { key }, verifyTimeout: 50 });
  const hanging = Array.from({ length: 6 }, (_, i) => get('key', { headers: { 'x-key': `k${i}` } }));
  t.match(await get('user', bearer(token)), { status: 200 });
  t.match(await get('basic', valid.basic), { status: 200 });
  for (const response of await Promise.all(hanging)) t.match(response, { status: 503 });
  t.equal(signals.length, 6);
  t.ok(signals.every(({ aborted }) => aborted));
  t.match(await get('either', valid.basic), { status: 200 }, 'another scheme may admit the caller');
  const twice = { headers: { 'x-key': 'k', authorization: 'Basic x' } };
  t.match(await get('either', twice), { status: 503 }, 'a failure outranks what is not valid');
});

t.test('the built-in verifier serves the only bearer scheme, unless the service has its own', async (t) => {
  const options = {
    contract: contractOf(documentOf({ 'my.Auth-1': schemes.user }, { mine: [{ 'my.Auth-1': [] }] })),
    handlers: { mine: handlers['user']! },
  };
  const { call, token, subject } = await startService(t, engine, options);
  t.match(callerOf((await call('GET', '/mine', { token })).json), { subject });
  t.match(await call('GET', '/mine', { token: `${token}x` }), noOne);
  const verifiers = { 'my.Auth-1': () => ({ subject: 'anyone' }) };
  const replaced = await startService(t, engine, { ...options, verifiers });
  const { json } = await replaced.call('GET', '/mine', { token });
  t.equal(callerOf(json)?.subject, '\nmy.Auth-1\nanyone');
});

t.test('the built-in verifier serves any scheme but basic, of an API key after a prefix', async (t) => {
  const key = { ...schemes.key, name: 'Authorization' } as const;
  const inHeader = (authorization: string) => ({ headers: { authorization } });
  const prefixed = { builtIn: { prefix: 'Token ' } } as const;
  const ofToken = { type: 'http', scheme: 'Token' } as const;
  const served: [object, AnyVerifiers[string], of: (token: string) => (typeof valid)['key']][] = [
    [key, prefixed, (token) => inHeader(`tOKEN  ${token}`)],
    [key, { builtIn: { prefix: 'key=' } }, (token) => inHeader(`key=${token}`)],
    [schemes.key, 'built-in', (token) => ({ headers: { 'x-key': token } })],
    [schemes.queryKey, 'built-in', (token) => ({ url: `?key=${token}` })],
    [schemes.cookieKey, 'built-in', (token) => ({ headers: { cookie: `constructor=${token}` } })],
    [ofToken, 'built-in', (token) => inHeader(`Token ${token}`)],
  ];
  const startMine = async (scheme: object, verifier: AnyVerifiers[string]) => {
    const service = await startService(t, engine, {
      contract: contractOf(documentOf({ mine: scheme }, { mine: [{ mine: [] }] })),
      handlers: { mine: handlers['user']! },
      verifiers: { mine: verifier },
    });
    const get = ({ url = '', headers = {} }: (typeof valid)['key']) =>
      service.call('GET', `/mine${url}`, { headers });
    return { ...service, get };
  };
  for (const [scheme, verifier, of] of served) {
    const { get, token, subject } = await startMine(scheme, verifier);
    const caller = callerOf((await get(of(token))).json);
    t.match(caller, { subject, id: subject, scheme: 'mine', tokenId: String });
  }
  const { get, token } = await startMine(key, prefixed);
  for (const [credential, code, message] of [
    [inHeader(token), 40101, 'The credentials are not valid: they must have the form "Token TOKEN".'],
    [inHeader('Token '), 40101, 'The credentials are not valid: they must have the form "Token TOKEN".'],
    [inHeader(`Token ${token}x`), 40101, 'The credentials are not valid.'],
    [{}, 40100, 'The credentials are missing.'],
  ] as const) {
    const headers = { 'www-authenticate': 'Token realm="plant-store"' };
    t.match(await get(credential), { ...noOne, headers, json: { error: code, message } });
  }
});

t.test('the start stops unless each scheme has one verifier that can serve it', async (t) => {
  const { verifiers } = createVerifiers();
  const cases: [given: object, ...faults: string[]][] = [
    [{ user: undefined, admin: undefined }, 'verifier of user is missing', 'verifier of admin is missing'],
    [{ key: undefined }, "of key is missing. Let the service's open return verifiers: a function for each"],
    [{ toString: () => undefined }, 'the verifier of toString is for no security scheme of the contract'],
    [{ basic: 'built-in', user: () => undefined }, 'takes access tokens, not user names and passwords'],
    [{ admin: 'built-in' }, 'and so is another of user and admin: tokens of one would open the other'],
  ];
  for (const [given, ...faults] of cases) {
    const options = { contract, handlers, verifiers: { ...verifiers, ...given } as AnyVerifiers };
    const message = await startService(t, engine, options).then(
      () => 'it starts',
      (error: unknown) => (error as Error).message,
    );
    for (const fault of faults) t.ok(message.includes(fault), `${fault}: ${message}`);
  }
});

t.test('verifiers that are missing or unknown do not compile', async (t) => {
  type Garden = Verifiers<securitySchemes>;
  const verify = () => ({ subject: 'a' });
  const all = { apiKey: verify, apiKeyInQuery: verify, gardenAuth: verify };
  // @ts-expect-error -- apiKey is missing
  const missing: Garden = { apiKeyInQuery: verify, gardenAuth: verify };
  // @ts-expect-error -- the contract has no such scheme
  const unknown: Garden = { ...all, magic: verify };
  // @ts-expect-error -- the built-in verifier takes no passwords
  const wrong: Verifiers<{ login: 'basic' }> = { login: 'built-in' };
  // @ts-expect-error -- what is before a bearer token is no choice
  const prefixed: Verifiers<{ user: 'bearer' }> = { user: { builtIn: { prefix: 'Token ' } } };
  // @ts-expect-error -- an API key is a text
  const basic: Garden = { ...all, apiKey: ({ username }: { username: string }) => ({ subject: username }) };
  // @ts-expect-error -- there are verifiers to write
  const none: Opened<operations, operationSecurity, securitySchemes> = { handlers: {} as never };
  // @ts-expect-error -- with two bearer schemes, the service says which one is built in
  const two: Verifiers<{ user: 'bearer'; admin: 'bearer' }> = { admin: verify };
  const right: [
    Garden,
    Verifiers<{ user: 'bearer' }>,
    Verifiers<{ user: 'bearer'; admin: 'bearer'; old?: 'basic' }>,
  ] = [{ ...all, apiKey: { builtIn: { prefix: 'Token ' } } }, {}, { user: 'built-in', admin: verify }];
  t.equal([missing, unknown, wrong, prefixed, basic, none, two, right].length, 8);
});
