// Reads the credentials of requests as the contract's security schemes say, and asks for them.
import type { FastifyRequest } from 'fastify';
import type { SecurityScheme } from '../../contract/security.js';
import type { BasicCredential } from '../../contract/verifiers.js';
import { ApiError, catalogue, type ApiErrorOptions } from '../../base/errors.js';
import type { CredentialPlace } from './verifier.js';
import { cookiesOf } from '../headers/cookies.js';

/** Returns the credential of a request as a text; null if it is malformed, and undefined if there is none. */
type ReadCredential = (request: FastifyRequest) => string | null | undefined;

/** The credentials after the name of a scheme (RFC 6750 section 2.1, RFC 7617 section 2); of others, any text. */
const forms = new Map([
  ['Bearer', '[\\w.~+/-]+=*'],
  ['Basic', '[A-Za-z0-9+/]+=*'],
]);

/** @param prefix - The text before an API key. */
export function placeOf(scheme: SecurityScheme, prefix = ''): CredentialPlace {
  if (scheme.kind === 'apiKey') return { in: scheme.in, name: scheme.name, prefix };
  const name = scheme.kind === 'http' ? scheme.scheme : scheme.kind === 'basic' ? 'Basic' : 'Bearer';
  return { in: 'header', name: 'Authorization', prefix: `${name} ` };
}

/** Returns the headers or the query that carry a credential in its place. */
export function placed(
  { in: where, name, prefix }: CredentialPlace,
  credential: string,
): { headers?: Record<string, string>; query?: string } {
  const value = prefix + credential;
  if (where === 'query') return { query: `${encodeURIComponent(name)}=${encodeURIComponent(value)}` };
  return { headers: where === 'header' ? { [name]: value } : { Cookie: `${name}=${value}` } };
}

/**
 * Returns the function that reads the credentials of a security scheme.
 * @param prefix - The text that must precede an API key, in upper or lower case.
 */
export function credentialReader(scheme: SecurityScheme, prefix = ''): ReadCredential {
  if (scheme.kind === 'apiKey') return keyReader(scheme, prefix.toLowerCase());
  const name = placeOf(scheme).prefix.trimEnd();
  // The name is case-insensitive (RFC 9110 section 11.1).
  const start = new RegExp(`^${name.replaceAll(/[^\w]/g, '\\$&')}(?: |$)`, 'i');
  const complete = new RegExp(`^ *(${forms.get(name) ?? '[^ ].*'}) *$`);
  return ({ headers: { authorization = '' } }) => {
    if (!start.test(authorization)) return undefined;
    return complete.exec(authorization.slice(name.length))?.[1] ?? null;
  };
}

function keyReader({ name, in: place }: SecurityScheme & { kind: 'apiKey' }, prefix: string): ReadCredential {
  const header = name.toLowerCase();
  const valuesOf = ({ headers, query, raw }: FastifyRequest): object =>
    place === 'header' ? headers : place === 'query' ? (query as object) : cookiesOf(raw);
  const key = place === 'header' ? header : name;
  return (request) => {
    const values = valuesOf(request);
    if (!Object.hasOwn(values, key)) return undefined;
    const value = (values as Record<string, unknown>)[key];
    // A repeated key is ambiguous.
    if (typeof value !== 'string' || !value.toLowerCase().startsWith(prefix)) return null;
    return (prefix === '' ? value : value.slice(prefix.length).trimStart()) || null;
  };
}

/** The messages for other schemes, since those of the catalogue speak of access tokens. */
const messages = {
  missingToken: 'The credentials are missing.',
  invalidToken: 'The credentials are not valid.',
  insufficientScope: 'The caller lacks the scope that the operation needs.',
};

/**
 * Returns the function that makes the errors of a scheme. A challenge comes with a 401 (RFC 9110 section 11.6.1); and with
 * a 403 for bearer tokens, where it has further parameters (RFC 6750 section 3).
 * @param challenge - The challenge of the scheme, if it has one.
 */
export function refusalsOf(scheme: SecurityScheme, challenge: string | undefined) {
  const isBearer = takesBearer(scheme);
  return (
    name: keyof typeof messages,
    parameters?: string,
    options: Pick<ApiErrorOptions, 'cause' | 'detail'> = {},
  ): ApiError => {
    const entry = isBearer ? name : { code: catalogue[name].code, message: messages[name] };
    const text = isBearer && parameters !== undefined ? `${challenge}, ${parameters}` : challenge;
    const hasChallenge = text !== undefined && (isBearer || name !== 'insufficientScope');
    return new ApiError(entry, { headers: hasChallenge ? { 'www-authenticate': text } : {}, ...options });
  };
}

/**
 * Returns the challenge for the credentials of a scheme; undefined for an API key, for which HTTP has none, unless its
 * prefix in the header Authorization is the name of a scheme.
 */
export function challengeOf(scheme: SecurityScheme, realm: string, prefix?: string): string | undefined {
  const place = placeOf(scheme, prefix);
  const name = /^([\w!#$%&'*+.^`|~-]+) $/.exec(place.prefix)?.[1];
  if (place.name.toLowerCase() !== 'authorization' || name === undefined) return undefined;
  return `${name} realm="${realm}"${scheme.kind === 'basic' ? ', charset="UTF-8"' : ''}`;
}

/** Whether the credentials of a scheme are bearer tokens (RFC 6750). */
export function takesBearer({ kind }: SecurityScheme): boolean {
  return kind === 'bearer' || kind === 'oauth2' || kind === 'openIdConnect';
}

/**
 * Decodes a user name and password (RFC 7617 section 2).
 * @returns Undefined if they are not Base64 of UTF-8 with a colon, or have control characters.
 */
export function decodeBasic(credential: string): BasicCredential | undefined {
  const bytes = Buffer.from(credential, 'base64');
  const text = bytes.toString('utf8');
  const isExact =
    bytes.toString('base64').replace(/=+$/, '') === credential.replace(/=+$/, '') &&
    bytes.equals(Buffer.from(text));
  const colon = text.indexOf(':');
  if (!isExact || colon < 0 || /\p{Cc}/u.test(text)) return undefined;
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}
