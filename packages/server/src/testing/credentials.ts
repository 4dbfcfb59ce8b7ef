// Chooses the credentials that the requests of tests send: those of the schemes that the operation has.
import type { Contract } from '../contract/contract.js';
import type { BasicCredential } from '../contract/verifiers.js';
import { placed, placeOf } from '../http/security/credentials.js';
import type { CredentialPlace, TokenPlace } from '../http/security/verifier.js';
import { operationsAt } from './operations-at.js';

/** The credentials of a test's caller, by the name of the security scheme. */
export type Credentials = Readonly<Record<string, string | BasicCredential>>;

/** A header or a part of the query string. */
type Sent = ReturnType<typeof placed>;

/**
 * Returns the headers and query that carry the credentials: those of the operation's first requirement that they satisfy,
 * or the token if they satisfy none.
 */
export type ChooseCredentials = (
  method: string,
  url: string,
  credentials: Credentials,
  token?: string,
) => Sent;

/** @param tokenPlace - The place of access tokens in a request; undefined if no scheme takes them. */
export function chooseCredentials(
  { operations, securitySchemes }: Pick<Contract, 'operations' | 'securitySchemes'>,
  tokenPlace: TokenPlace | undefined,
): ChooseCredentials {
  const bearer: CredentialPlace = { in: 'header', name: 'Authorization', prefix: 'Bearer ' };
  return (method, url, credentials, token) => {
    const known: Credentials = {
      ...credentials,
      ...(token !== undefined && tokenPlace !== undefined && { [tokenPlace.scheme]: token }),
    };
    const operation = operationsAt(operations, url).find(
      (one) => one.method === (method === 'HEAD' ? 'GET' : method),
    );
    const requirements = operation?.security ?? [];
    const satisfied = requirements.find(
      (schemes) => schemes.length > 0 && schemes.every(({ scheme }) => Object.hasOwn(known, scheme)),
    );
    if (satisfied === undefined) return token === undefined ? {} : placed(tokenPlace ?? bearer, token);
    const parts = satisfied.map(({ scheme }) => {
      const place = scheme === tokenPlace?.scheme ? tokenPlace : placeOf(securitySchemes[scheme]!);
      return placed(place, textOf(known[scheme]!));
    });
    const queries = parts.flatMap(({ query = [] }) => query);
    const cookies = parts.flatMap(({ headers = {} }) => headers['Cookie'] ?? []);
    const headers = Object.assign({}, ...parts.map(({ headers }) => headers)) as Record<string, string>;
    return {
      headers: { ...headers, ...(cookies.length > 0 && { Cookie: cookies.join('; ') }) },
      ...(queries.length > 0 && { query: queries.join('&') }),
    };
  };
}

/** A credential as it is sent (RFC 7617 section 2). */
function textOf(credential: string | BasicCredential): string {
  if (typeof credential === 'string') return credential;
  return Buffer.from(`${credential.username}:${credential.password}`).toString('base64');
}
