// Injects the requests of tests into an app, and checks the responses.
import { strict as assert } from 'node:assert';
import type { FastifyInstance, InjectOptions } from 'fastify';
import { exactJson } from '../contract/document/json-text.js';
import type { HttpResponse, ResponseCheck } from './response-check.js';

/** The options of a test's request, besides its method and URL. */
export interface RequestOptions {
  /** A bearer token. */
  readonly token?: string | undefined;
  /** Text and bytes are sent unchanged, everything else as JSON (a bigint as bare digits). */
  readonly body?: unknown;
  /** Headers, which take precedence over `authorization` and `content-type` as the other options set them. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Injects a request.
 * @param findFault - Describes why the handler's result or error is not a response of its operation; undefined if it is.
 * @throws AssertionError if there is such a fault, or if the contract does not have the response.
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
    // An injected request shows the body that the server does not send in response to HEAD.
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
