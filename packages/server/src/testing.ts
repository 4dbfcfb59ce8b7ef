// The public interface for the tests of a service. It opens the service on a store of its own, without a process or port.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { buildApp } from './process/app.js';
import { loadContract } from './contract/contract.js';
import { parseExactJson } from './contract/document/exact-json.js';
import type { Service } from './service/definition.js';
import { UndeclaredResponseError } from './base/errors.js';
import type { Report } from './base/events.js';
import { issueToken } from './storage/core/tokens.js';
import { migrateStorage, openStorage } from './storage/open.js';
import { noStore } from './storage/no-store.js';
import { chooseCredentials, type Credentials } from './testing/credentials.js';
import { request, type RequestOptions } from './testing/requests.js';
import { responseCheck, type HttpResponse } from './testing/response-check.js';

export type { Credentials, HttpResponse, RequestOptions };

/** A response that the contract has. */
export interface TestResponse extends HttpResponse {
  /** The value of a JSON body, in which an integer that a number would round is a bigint; undefined for other bodies. */
  readonly json: unknown;
  /** The body, whatever its type. */
  readonly bytes: Buffer;
}

/** Options of a test's token. */
export interface TokenOptions {
  /** The caller; that of the service's first token by default. */
  readonly subject?: string;
  /** All scopes of the service by default. */
  readonly scopes?: readonly string[];
  /** Its lifetime, in ms of the service's clock; unlimited by default. */
  readonly expiresIn?: number;
}

/** Options of a service under test. */
export interface TestOptions {
  /** The URL of an empty PostgreSQL database; by default, the store is a new SQLite file, which is removed at the end. */
  readonly databaseUrl?: string;
  /** Credentials for verifiers of the service's own, by the name of the security scheme. */
  readonly credentials?: Credentials;
}

/** A service under test. */
export interface TestService {
  /** Its app, for routes outside of the contract: `app.inject(…)`, or `app.listen(…)` for WebSockets. */
  readonly app: FastifyInstance;
  /** The caller of requests that name no other token. */
  readonly subject: string;
  /** A token of this caller, with all scopes. A service without a store has none: reading it throws TypeError. */
  readonly token: string;
  /**
   * Issues another access token.
   * @throws TypeError if the subject is not valid.
   */
  issueToken(options?: TokenOptions): Promise<string>;
  /**
   * Sends a request with the credentials of the first security requirement that those of the test satisfy: the service's
   * first token, and `credentials` of the options. `token` is another one, or null for a request without credentials.
   * @returns The response, which is within the contract: its status and headers are declared, its media type and its
   *   body match the schema, without additional fields, and it has a request id.
   * @throws AssertionError if the contract does not have the response, or the handler returned or threw something that
   *   the operation does not declare: the server would send a 500. The message says what to write.
   */
  request(
    method: string,
    url: string,
    options?: Omit<RequestOptions, 'token'> & {
      readonly token?: string | null;
      readonly credentials?: Credentials;
    },
  ): Promise<TestResponse>;
  /**
   * Puts the service's clock forward, so that tokens expire and rate limits recover. It keeps running otherwise.
   * Handlers that read `Date.now()` do not see it.
   * @param time - In ms.
   */
  advance(time: number): void;
  /** Closes the service and its store. */
  close(): Promise<void>;
}

/**
 * Opens a service on an empty store, for a test. Its log is silent.
 * @throws Error as its server would when it starts: OpenError, ContractError, StorageError.
 * @example
 * const library = await openTestService(service);
 * const book = { isbn: '9780141439600', title: 'A Tale of Two Cities', author: 'Charles Dickens' };
 * assert.equal((await library.request('POST', '/books', { body: book })).status, 201);
 * assert.deepEqual((await library.request('GET', '/books')).json, [book]);
 * assert.equal((await library.request('GET', '/books', { token: null })).status, 401);
 * await library.close();
 */
export async function openTestService(
  service: Service,
  { databaseUrl, credentials }: TestOptions = {},
): Promise<TestService> {
  const folder = await mkdtemp(join(tmpdir(), `${service.name}-`));
  const closers = [() => rm(folder, { recursive: true, force: true })];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const contract = loadContract(await readFile(service.contract), service.renderError !== undefined);
    if (databaseUrl !== undefined) await migrateStorage(service, databaseUrl);
    const hasStore = service.databaseUrl !== undefined;
    const file = hasStore ? `file:${join(folder, 'test.db')}` : noStore;
    const storage = await openStorage(service, databaseUrl ?? file);
    closers.push(() => storage.close());
    let ahead = 0;
    const now = () => Date.now() + ahead;
    const monotonic = () => performance.now() + ahead;
    const faults = new WeakMap<object, string>();
    const observe: Report = (event) => {
      if (event.type !== 'error sent') return;
      const { cause } = event.error;
      if (cause instanceof UndeclaredResponseError) faults.set(event.request, cause.message);
    };
    // In production, an identity provider may issue the tokens of a service without a store.
    const takesTokens = true;
    const app = await buildApp({ service, storage, contract, takesTokens, observe, now, monotonic });
    closers.push(() => app.close());
    const check = responseCheck(contract, service);
    const subject = 'test';
    const issue: TestService['issueToken'] = async (options = {}) => {
      const { expiresIn, ...given } = { subject, scopes: service.scopes, ...options };
      const expiresAt = expiresIn === undefined ? undefined : now() + expiresIn;
      const token = { prefix: service.tokenPrefix, now: now(), expiresAt, ...given };
      return (await issueToken(storage.tokens, token)).secret;
    };
    const token = hasStore ? await issue() : undefined;
    const choose = chooseCredentials(contract, app.tokenPlace);
    return {
      app,
      subject,
      get token() {
        if (token === undefined) throw new TypeError(`${service.name} has no store, and so no tokens`);
        return token;
      },
      issueToken: issue,
      request: async (method, url, { token: given = token, credentials: own, ...options } = {}) => {
        const { headers, query } =
          given === null ? {} : choose(method, url, { ...credentials, ...own }, given);
        const target = query === undefined ? url : `${url}${url.includes('?') ? '&' : '?'}${query}`;
        const sent = { ...options, headers: { ...lowerCase(headers), ...lowerCase(options.headers) } };
        const response = await request(app, check, method, target, sent, (failed) => faults.get(failed));
        const isJson = /[/+]json\b/.test(String(response.headers['content-type'])) && response.text !== '';
        return { ...response, json: isJson ? parseExactJson(response.text) : undefined };
      },
      advance: (time) => {
        ahead += time;
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Headers of tests replace those of credentials, whatever the case of their names. */
function lowerCase(headers: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
