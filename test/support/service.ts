// The service under test: the real app on a store of its own, and the one way in which tests talk to it.
import type { FastifyInstance, InjectOptions } from 'fastify';
import type { Test } from 'tap';
import { issueToken } from '../../src/access-token.js';
import { buildApp, type AppOptions } from '../../src/app.js';
import { scopes, type Scope, type Storage } from '../../src/domain.js';
import { checkAnswer, type Answer } from './contract-check.js';
import { sharedStorage, type Engine } from './engines.js';

/** An answer whose body has been read: `json` is lossy beyond 2^53, `text` never. */
export interface JsonAnswer extends Answer {
  readonly json: unknown;
}

/** What a request may have beyond its method and URL. */
export interface CallOptions {
  token?: string | undefined;
  /** Sent as it is when it is text or bytes, else as JSON (a bigint as bare digits). */
  body?: unknown;
  headers?: Record<string, string>;
}

/** The service of a test. */
export interface Service {
  readonly app: FastifyInstance;
  readonly storage: Storage;
  /** A subject that no other test has. */
  readonly subject: string;
  /** A token for it with both scopes. */
  readonly token: string;
  /** Makes a token. */
  issue(subject: string, options?: { scopes?: readonly Scope[]; expiresAt?: number }): Promise<string>;
  /** Sends a request and checks the answer against the contract. */
  call(method: string, url: string, options?: CallOptions): Promise<JsonAnswer>;
}

let subjects = 0;

/** Starts the service for a test, and ends it with the test. */
export async function startService(
  t: Test,
  engine: Engine,
  options: Partial<AppOptions> & { wrap?: (storage: Storage) => Storage } = {},
): Promise<Service> {
  const storage = options.storage ?? (await sharedStorage(engine));
  const subject = `subject ${++subjects}`;
  const { wrap = (same: Storage) => same, ...appOptions } = options;
  const app = await buildApp({ ...appOptions, storage: wrap(storage) });
  t.teardown(() => app.close());
  const issue: Service['issue'] = async (subject, { scopes: given = scopes, expiresAt } = {}) => {
    const { secret } = await issueToken(storage.tokens, {
      subject,
      scopes: given,
      now: Date.now(),
      expiresAt,
    });
    return secret;
  };
  const token = await issue(subject);
  return {
    app,
    storage,
    subject,
    token,
    issue,
    call: async (method, url, { token: given, body, headers = {} } = {}) => {
      const raw = typeof body === 'string' || Buffer.isBuffer(body);
      const payload = body === undefined ? undefined : raw ? body : jsonText(body);
      const response = await app.inject({
        method: method as NonNullable<InjectOptions['method']>,
        url,
        headers: {
          ...(given !== undefined && { authorization: `Bearer ${given}` }),
          ...(payload !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(payload !== undefined && { payload: payload }),
      });
      const answer = {
        status: response.statusCode,
        headers: response.headers as Answer['headers'],
        // The server leaves the body of an answer to HEAD out; an injected request shows it.
        text: method === 'HEAD' ? '' : response.payload,
      };
      checkAnswer(method, url, answer);
      return { ...answer, json: answer.text === '' ? undefined : (JSON.parse(answer.text) as unknown) };
    },
  };
}

/** JSON in which a bigint stands as bare digits. */
export function jsonText(value: unknown): string {
  const marked = JSON.stringify(value, (_, item: unknown) =>
    typeof item === 'bigint' ? `\u0001${item}\u0001` : item,
  );
  return marked.replace(/"\\u0001(-?\d+)\\u0001"/g, '$1');
}
