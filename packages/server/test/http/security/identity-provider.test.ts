// Only valid access tokens of the configured identity provider are accepted, and one that fails or misbehaves affects no
// other tokens: a real provider, and our own issuer.
import fc from 'fast-check';
import {
  decodeProtectedHeader,
  exportJWK,
  exportSPKI,
  generateKeyPair,
  SignJWT,
  UnsecuredJWT,
  type CryptoKey,
  type JWK,
} from 'jose';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { engines } from '../../support/engines.js';
import { captureLog, startService, type ServiceOptions } from '../../support/service.js';

// The provider warns that it is not set up for production, which is true here.
t.capture(console, 'warn', (message: string) => {
  if (!message.startsWith('oidc-provider WARNING')) console.error(message);
});
const { default: Provider } = await import('oidc-provider');

const audience = 'https://plants.example';
const start = Date.parse('2026-01-01T00:00:00Z');

/** Authentication does not depend on the engine. */
const engine = engines[0]!;

interface Key {
  alg: string;
  kid: string;
  privateKey: CryptoKey;
  publicKey: CryptoKey;
  jwk: JWK;
}

let kids = 0;

async function makeKey(alg: string): Promise<Key> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  const kid = `key ${++kids}`;
  return { alg, kid, privateKey, publicKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } };
}

/** An issuer, which publishes a key of each algorithm and counts how often they are requested. */
async function startIssuer(t: Test, algorithms = ['ES256']) {
  const keys = await Promise.all(algorithms.map(makeKey));
  const issuer = {
    keys,
    asked: 0,
    respond: (response: ServerResponse) => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) }));
    },
    provider: { issuer: '', audience, jwksUrl: '' },
    /** Starts the service, which accepts the tokens of this issuer. */
    serve: (options: ServiceOptions = {}, provider: Partial<ServiceOptions['identityProvider']> = {}) =>
      startService(t, engine, {
        identityProvider: { ...issuer.provider, ...provider },
        now: () => start,
        ...options,
      }),
    /** A token of this issuer, valid for an hour unless the claims or the header say otherwise. */
    sign: (
      claims: Record<string, unknown> = {},
      header: Record<string, unknown> = {},
      key = keys[0]!,
      secret: CryptoKey | Uint8Array = key.privateKey,
    ) => {
      const now = start / 1000;
      const all = {
        iss: issuer.provider.issuer,
        aud: audience,
        sub: 'alice',
        scope: 'openid plants:read plants:write',
        iat: now,
        exp: now + 3_600,
        ...claims,
      };
      return new SignJWT(all).setProtectedHeader({ alg: key.alg, kid: key.kid, ...header }).sign(secret);
    },
  };
  const server = createServer((_, response) => {
    issuer.asked++;
    issuer.respond(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  issuer.provider = { issuer: `${origin}/`, audience, jwksUrl: `${origin}/keys` };
  return issuer;
}

const plant = { id: 1, name: 'Monstera', tag: 'indoor' };
const invalid = {
  status: 401,
  json: { error: 40101, message: 'The access token is malformed, unknown, expired or revoked.' },
  headers: { 'www-authenticate': 'Bearer realm="plant-store", error="invalid_token"' },
};
/** Only the holder of a token that was valid learns this. */
const expired = {
  status: 401,
  json: { error: 40101, message: /: it has expired\.$/ },
  headers: invalid.headers,
};
const unavailable = {
  status: 503,
  json: { error: 50300, message: 'The service is temporarily unavailable; the request had no effect.' },
  headers: { 'retry-after': '1' },
};

t.test('tokens of every algorithm are accepted, and their subjects are separate from others', async (t) => {
  const issuer = await startIssuer(t, ['RS256', 'ES256', 'EdDSA', 'Ed25519']);
  const { keys } = issuer;
  const { call, issue, storage } = await issuer.serve();
  for (const [i, key] of keys.entries()) {
    const token = await issuer.sign({}, {}, key);
    t.match(await call('POST', '/plants', { token, body: { ...plant, id: i } }), { status: 200 }, key.alg);
  }
  const token = await issuer.sign({ jti: 'another' }, { typ: 'at+jwt' });
  const list = keys.map(() => ({ name: 'Monstera', tag: 'indoor' }));
  t.strictSame((await call('GET', '/plants', { token })).json, list);

  const subject = `${issuer.provider.issuer}\nalice`;
  t.equal((await storage.plants.list(subject, { limit: 10 })).count, 4);
  const opaque = await issue('alice');
  t.strictSame(
    (await call('GET', '/plants', { token: opaque })).json,
    [],
    'an opaque token is another subject',
  );
  t.strictSame((await call('GET', '/plants', { token: await issuer.sign({ sub: 'bob' }) })).json, []);
  t.equal(issuer.asked, 1, 'the keys are fetched once');
});

t.test(
  'only access tokens are accepted: others of the issuer have a type or an audience of their own',
  async (t) => {
    const issuer = await startIssuer(t);
    const lenient = await issuer.serve();
    const strict = await issuer.serve({}, { requireType: true });
    const types: [typ: unknown, lenient: number, strict: number][] = [
      ['application/at+jwt', 200, 200],
      ['AT+JWT', 200, 200],
      // What most providers send, for ID tokens, too.
      ['JWT', 200, 401],
      [undefined, 200, 401],
      ['logout+jwt', 401, 401],
      ['text/at+jwt', 401, 401],
      ['', 401, 401],
      [1, 401, 401],
    ];
    for (const [typ, accepted, acceptedStrictly] of types) {
      const token = await issuer.sign({ jti: String(typ) }, typ === undefined ? {} : { typ });
      const status = async ({ call }: typeof lenient) => (await call('GET', '/plants', { token })).status;
      t.strictSame([await status(lenient), await status(strict)], [accepted, acceptedStrictly], String(typ));
    }
    const idToken = await issuer.sign({ aud: 'the id of a client', nonce: 'n' }, { typ: 'JWT' });
    t.match(await lenient.call('GET', '/plants', { token: idToken }), invalid, 'an ID token');
  },
);

t.test('scopes are read from scope or scp', async (t) => {
  const issuer = await startIssuer(t);
  const { call } = await issuer.serve();
  const cases: [Record<string, unknown>, number, number][] = [
    [{ scope: 'plants:read' }, 200, 403],
    [{ scope: 'email plants:write' }, 403, 404],
    [{ scope: undefined, scp: ['plants:read', 'plants:write', 7] }, 200, 404],
    [{ scope: undefined, scp: 'plants:read plants:write' }, 200, 404],
    [{ scope: '' }, 403, 403],
    [{ scope: 'plants:readwrite plants' }, 403, 403],
    [{ scope: undefined }, 403, 403],
    [{ scope: { 'plants:read': true } }, 403, 403],
  ];
  for (const [claims, read, write] of cases) {
    const token = await issuer.sign({ sub: 'of scopes', ...claims });
    t.equal((await call('GET', '/plants', { token })).status, read, JSON.stringify(claims));
    t.equal((await call('DELETE', '/plants/1', { token })).status, write, JSON.stringify(claims));
  }
});

t.test('an invalid token returns 401, whatever is wrong with it, and the log says why', async (t) => {
  const issuer = await startIssuer(t, ['RS256', 'ES256', 'RS384']);
  const [rsa, ec, small] = issuer.keys;
  const stranger = await makeKey('RS256');
  const { lines, logger } = captureLog();
  const { call, storage } = await issuer.serve({ logger });
  const now = start / 1000;
  const good = await issuer.sign();
  const [header, payload, signature] = good.split('.') as [string, string, string];
  const base64url = (text: string) => Buffer.from(text).toString('base64url');
  const critical = JSON.stringify({ alg: 'RS256', kid: rsa!.kid, crit: ['x'], x: 1 });
  const publicPem = new TextEncoder().encode(await exportSPKI(rsa!.publicKey));
  const claims = { iss: issuer.provider.issuer, aud: audience, sub: 'alice' };
  const unsecured = new UnsecuredJWT(claims).setExpirationTime(now + 60).encode();
  const bad: Record<string, [token: string, reason: string]> = {
    'alg none': [unsecured, 'malformed'],
    'alg none, with a signature': [`${unsecured}${signature}`, 'algorithm'],
    'HMAC with the public key': [await issuer.sign({}, { alg: 'HS256' }, rsa, publicPem), 'algorithm'],
    'an algorithm that is not allowed': [await issuer.sign({}, {}, small), 'algorithm'],
    'an unknown kid': [await issuer.sign({}, { kid: 'nobody' }), 'unknown-key'],
    "another key's kid": [await issuer.sign({}, { kid: ec!.kid }), 'unknown-key'],
    'a stranger under a known kid': [await issuer.sign({}, { kid: rsa!.kid }, stranger), 'signature'],
    'a key in its own header': [
      await issuer.sign({}, { kid: undefined, jwk: stranger.jwk }, stranger),
      'signature',
    ],
    'an unknown critical header': [`${base64url(critical)}.${payload}.${signature}`, 'malformed'],
    'another payload': [`${header}.${base64url('{"sub":"mallory"}')}.${signature}`, 'signature'],
    'a cut signature': [good.slice(0, -8), 'signature'],
    'another issuer': [await issuer.sign({ iss: issuer.provider.issuer.slice(0, -1) }), 'issuer'],
    'another audience': [await issuer.sign({ aud: ['https://other.example'] }), 'audience'],
    expired: [await issuer.sign({ exp: now - 6 }), 'expired'],
    'no expiry': [await issuer.sign({ exp: undefined }), 'malformed'],
    'another type': [await issuer.sign({}, { typ: 'logout+jwt' }), 'type'],
    'not yet valid': [await issuer.sign({ nbf: now + 6 }), 'not-yet-valid'],
    'no subject': [await issuer.sign({ sub: undefined }), 'subject'],
    'a subject that is no text': [await issuer.sign({ sub: 7 }), 'subject'],
    'a long subject': [await issuer.sign({ sub: 'x'.repeat(256) }), 'subject'],
    'a subject with U+0000': [await issuer.sign({ sub: 'a\0b' }), 'subject'],
    oversized: [await issuer.sign({ filler: 'x'.repeat(8_192) }), 'malformed'],
    'two parts': [`${header}.${payload}`, 'malformed'],
    'five parts, as of a JWE': [`${good}.${payload}.${signature}`, 'malformed'],
    'no JSON': [`${base64url('{')}.${payload}.${signature}`, 'malformed'],
    'neither ours nor a JWT': ['opaque', 'malformed'],
    'nearly ours': [`pst_${'a'.repeat(42)}`, 'malformed'],
  };
  for (const [what, [token, reason]] of Object.entries(bad)) {
    const expected = reason === 'expired' ? expired : invalid;
    t.match(await call('POST', '/plants', { token, body: plant }), expected, what);
    t.match(lines.at(-1), { level: 30, msg: 'request', status: 401, reason }, what);
    t.notMatch(JSON.stringify(lines.at(-1)), token.slice(-20), 'nothing of the token is logged');
  }
  t.equal((await storage.plants.list(`${issuer.provider.issuer}\nalice`, { limit: 1 })).count, 0);
  const edges = [{ exp: now - 4, nbf: now + 4 }, { aud: ['x', audience] }, { sub: `Ä${'x'.repeat(254)}` }];
  for (const claims of edges) {
    const token = await issuer.sign({ ...claims, jti: 'edge' });
    t.match(await call('GET', '/plants', { token }), { status: 200, text: '[]' }, JSON.stringify(claims));
  }
  t.equal(issuer.asked, 1, 'unknown key ids do not drive requests to the issuer');
});

t.test('a token that names no key is accepted if one fits', async (t) => {
  const issuer = await startIssuer(t, ['ES256', 'RS256']);
  const { lines, logger } = captureLog();
  const token = await issuer.sign({ sub: 'of a key' }, { kid: undefined });
  t.match(await (await issuer.serve()).call('GET', '/plants', { token }), { status: 200 });
  const several = await startIssuer(t, ['ES256', 'ES256']);
  const { call } = await several.serve({ logger });
  t.match(await call('GET', '/plants', { token: await several.sign({}, { kid: undefined }) }), invalid);
  t.match(lines.at(-1), { reason: 'unknown-key' });
});

t.test('whatever has the form of a JWT is accepted or refused with a 401', async (t) => {
  const issuer = await startIssuer(t);
  const { call } = await issuer.serve();
  const encode = (text: string) => Buffer.from(text).toString('base64url');
  const kid = fc.oneof(fc.constant(issuer.keys[0]!.kid), fc.json());
  const plausible = fc.record({ alg: fc.constantFrom('ES256', 'none', 'HS256'), kid });
  const header = fc.oneof(
    fc.json(),
    plausible.map((value) => JSON.stringify(value)),
  );
  const parts = fc.tuple(header, fc.oneof(fc.json(), fc.string()), fc.base64String());
  await fc.assert(
    fc.asyncProperty(parts, async ([head, body, signature]) => {
      const token = `${encode(head)}.${encode(body)}.${signature.replaceAll(/[+/=]/g, '_')}`;
      return (await call('GET', '/plants', { token })).status === 401;
    }),
    { numRuns: 300 },
  );
});

/** Starts a real identity provider with one client, which issues JWTs for any resource. */
async function startProvider(t: Test, keys: Key[], port = 0) {
  const jwks = await Promise.all(
    keys.map(async ({ privateKey, jwk }) => ({ ...(await exportJWK(privateKey)), ...jwk })),
  );
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address() as AddressInfo;
  const origin = `http://127.0.0.1:${address.port}`;
  const client = { client_id: 'gardener', client_secret: 'a long secret' };
  const provider = new Provider(origin, {
    clients: [{ ...client, grant_types: ['client_credentials'], response_types: [], redirect_uris: [] }],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource) => ({
          audience: resource,
          scope: 'plants:read plants:write',
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
    jwks: { keys: jwks },
    ttl: { ClientCredentials: 600 },
    cookies: { keys: ['of no use here'] },
  });
  const handle = provider.callback();
  server.on('request', (request, response) => void handle(request, response));
  const stop = async () => {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  };
  t.teardown(stop);
  const found = await fetch(`${origin}/.well-known/openid-configuration`);
  const { issuer, jwks_uri, token_endpoint } = (await found.json()) as Record<string, string>;
  const getToken = async (request: { resource?: string; scope?: string }) => {
    const body = new URLSearchParams({ ...client, grant_type: 'client_credentials', ...request });
    const response = await fetch(token_endpoint!, { method: 'POST', body });
    return ((await response.json()) as { access_token: string }).access_token;
  };
  return {
    identityProvider: { issuer: issuer!, audience, jwksUrl: jwks_uri!, jwksCooldown: 0 },
    port: address.port,
    stop,
    getToken,
  };
}

t.test(
  'tokens of a real identity provider are good, over its rotation of keys and its restart',
  async (t) => {
    const [first, second] = await Promise.all(['RS256', 'RS256'].map(makeKey));
    const before = await startProvider(t, [first!]);
    const { call } = await startService(t, engine, { identityProvider: before.identityProvider });
    const both = { resource: audience, scope: 'plants:read plants:write' };
    const old = await before.getToken(both);
    t.equal((await call('POST', '/plants', { token: old, body: plant })).status, 200);
    const reader = await before.getToken({ ...both, scope: 'plants:read' });
    t.match(await call('GET', '/plants', { token: reader }), { status: 200, json: [{ name: plant.name }] });
    t.equal((await call('DELETE', '/plants/1', { token: reader })).status, 403, 'a scope that it lacks');
    const foreign = await before.getToken({ ...both, resource: 'https://weeds.example' });
    t.match(await call('GET', '/plants', { token: foreign }), invalid, 'it is for another audience');
    t.match(await call('GET', '/plants', { token: await before.getToken({}) }), invalid, 'it is no JWT');

    const unseen = await before.getToken(both);
    await before.stop();
    t.equal((await call('GET', '/plants', { token: unseen })).status, 200, 'the keys are known already');

    const after = await startProvider(t, [second!, first!], before.port);
    const fresh = await after.getToken(both);
    t.equal(decodeProtectedHeader(fresh).kid, second!.kid);
    t.equal((await call('DELETE', '/plants/1', { token: fresh })).status, 204, 'the new key is found');
    t.equal((await call('GET', '/plants', { token: unseen })).status, 200, 'and the old one still good');
  },
);

t.test('an issuer that does not respond causes 503, and opaque tokens still work', async (t) => {
  const issuer = await startIssuer(t, ['EdDSA']);
  const { call, token: opaque } = await issuer.serve();
  const token = await issuer.sign({ sub: 'of outage' });
  const good = issuer.respond;
  const failures: Record<string, typeof good> = {
    'a cut connection': (response) => response.destroy(),
    'a 500': (response) => response.writeHead(500).end('{"keys":[]}'),
    'a redirection': (response) => response.writeHead(302, { location: '/elsewhere' }).end(),
    'no JSON': (response) => response.end('<html>'),
    'no key set': (response) => response.end('{}'),
  };
  for (const [what, respond] of Object.entries(failures)) {
    issuer.respond = respond;
    t.match(await call('GET', '/plants', { token }), unavailable, what);
    t.equal((await call('GET', '/plants', { token: opaque })).status, 200, what);
  }
  const hmac = await issuer.sign({}, { alg: 'HS256' }, issuer.keys[0], new Uint8Array(32));
  t.match(await call('GET', '/plants', { token: hmac }), invalid, 'this one is bad, keys or no keys');
  issuer.respond = good;
  t.equal((await call('GET', '/plants', { token })).status, 200, 'it is back');
});

t.test('an issuer that never responds is a 503 in the end, and holds up no opaque token', async (t) => {
  const issuer = await startIssuer(t);
  const asked = new Promise<ServerResponse>((resolve) => (issuer.respond = resolve));
  const { call, token: opaque } = await issuer.serve();
  const token = await issuer.sign();
  const waiting = call('GET', '/plants', { token });
  const silent = await asked;
  t.equal(
    (await call('GET', '/plants', { token: opaque })).status,
    200,
    'while the other waits for its keys',
  );
  silent.destroy();
  t.match(await waiting, unavailable);
  const short = await issuer.serve({}, { jwksTimeout: 20 });
  t.match(await short.call('GET', '/plants', { token }), unavailable, 'the wait has an end');
});

t.test('without an identity provider, no JWT is accepted', async (t) => {
  const issuer = await startIssuer(t);
  const { call } = await startService(t, engine, { now: () => start });
  t.match(await call('GET', '/plants', { token: await issuer.sign() }), invalid);
  t.equal(issuer.asked, 0);
});
