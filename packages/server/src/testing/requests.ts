// Injects the requests of tests into an app, and checks the responses.
import { strict as assert } from 'node:assert';
import type { FastifyInstance, InjectOptions } from 'fastify';
import { exactJson } from '../contract/document/json-text.js';
import type { HttpResponse, ResponseCheck } from './response-check.js';

/** What a request of a test may have beyond its method and URL. */
export interface RequestOptions {
  /** A bearer token. */
  readonly token?: string | undefined;
  /** Sent as it is when it is text or bytes, else as JSON (a bigint as bare digits). */
  readonly body?: unknown;
  /** Headers, which take precedence over `authorization` and `content-type` as the other options set them. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Injects a request.
 * @param findFault - Describes why what the handler of a request returned or threw was no response of its operation.
 * @throws AssertionError if it was not, or if the contract does not have the response.
 */
export async function request(
  app: FastifyInstance,
  check: ResponseCheck,
  method: string,
  url: string,
  { token, body, headers = {} }: RequestOptions,
  findFault: (request: object) => string | undefined = () => undefined,
): Promise<HttpResponse & { readonly bytes: Buffer }> {
  const payload = payloadOf(body);
  const injected = await app.inject({
    method: method as NonNullable<InjectOptions['method']>,
    url,
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(payload !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(payload !== undefined && { payload }),
  });
  const response = {
    status: injected.statusCode,
    headers: injected.headers as HttpResponse['headers'],
    // The server leaves the body of a response to HEAD out; an injected request shows it.
    text: method === 'HEAD' ? '' : injected.payload,
  };
  const fault = findFault(injected.raw.req);
  if (fault !== undefined) assert.fail(`${method} ${url.slice(0, 80)} returned ${response.status}: ${fault}`);
  check(method, url, response);
  return { ...response, bytes: method === 'HEAD' ? Buffer.alloc(0) : injected.rawPayload };
}

function payloadOf(body: unknown): string | Buffer | undefined {
  if (body === undefined || typeof body === 'string') return body;
  return body instanceof Uint8Array ? Buffer.from(body) : exactJson(body);
}
