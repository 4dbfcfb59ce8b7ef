// Checks what the HTTP parser does not: version, number of fields, Host, framing and Expect.
import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import { ApiError } from '../../base/errors.js';

/** Maximum number of header fields in a request. */
const fieldLimit = 1_000;

/** Characters that begin or end the host in a URL (RFC 3986 section 3.2): another reader could find another host. */
const outsideHost = /[\s/?#@\\]/;

/** For faults after which the rest of the connection cannot be trusted. */
const close = { headers: { connection: 'close' } };

/** An onRequest hook that refuses invalid requests that the HTTP parser accepts. */
export const checkHeaders: onRequestHookHandler = ({ raw }, reply, done) => {
  const { upgrade, connection = '' } = raw.headers;
  // Node may have dropped what has arrived behind a request that offers an upgrade.
  if (upgrade !== undefined && /\bupgrade\b/i.test(connection)) reply.header('connection', 'close');
  done(findFault(raw));
};

function findFault(request: IncomingMessage): ApiError | undefined {
  const { httpVersion, headers, rawHeaders } = request;
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return new ApiError('malformedRequest', close);
  // The parser limits the length of the section without its separators.
  if (rawHeaders.length > 2 * fieldLimit) return new ApiError('headersTooLarge', close);
  const hosts = countOf('host', rawHeaders);
  // RFC 9112 section 3.2.
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1') || outsideHost.test(headers.host ?? ''))
    return new ApiError('invalidHost');
  // Node takes the first one, and a proxy may take another (RFC 9110 section 5.3 forbids several).
  if (countOf('authorization', rawHeaders) > 1)
    return new ApiError('malformedRequest', { detail: 'Authorization must not be repeated' });
  const coding = headers['transfer-encoding'];
  if (coding !== undefined) {
    // RFC 9112 section 6.1: in HTTP/1.0, Transfer-Encoding means that the framing is faulty.
    if (httpVersion === '1.0') return new ApiError('malformedRequest', close);
    if (coding.toLowerCase() !== 'chunked') {
      const detail = 'the only supported Transfer-Encoding is `chunked`';
      return new ApiError('unsupportedMediaType', { ...close, detail });
    }
  }
  const expectation = expectationOf(request);
  return expectation === undefined || expectation === '100-continue'
    ? undefined
    : new ApiError('expectationFailed');
}

/** @param field - In lower case. @param rawHeaders - Names and values in turn. */
function countOf(field: string, rawHeaders: readonly string[]): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    if (name.length === field.length && name.toLowerCase() === field) count++;
  }
  return count;
}

/** The expectation of a request, in lower case (RFC 9110 section 10.1.1); HTTP/1.0 has none. */
function expectationOf({ httpVersion, headers }: IncomingMessage): string | undefined {
  return httpVersion === '1.0' ? undefined : headers.expect?.toLowerCase();
}

/** Sends 100 Continue if the client waits for it before sending its body. */
export function continueIfExpected({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (expectationOf(raw) !== undefined) reply.raw.writeContinue();
}
