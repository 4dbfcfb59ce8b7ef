// Checks what the HTTP parser does not: version, header size, Host, framing and Expect.
import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import { ApiError } from '../../base/errors.js';
import { closesBehindUpgrade } from './upgrade.js';

/** Maximum number of header fields in a request. */
const fieldLimit = 1_000;

/** Characters that begin or end the host in a URL (RFC 3986 section 3.2): another reader could find another host. */
const outsideHost = /[\s/?#@\\]/;

/** For faults after which the rest of the connection cannot be trusted. */
const close = { headers: { connection: 'close' } };

/**
 * Returns an onRequest hook that refuses invalid requests that the HTTP parser accepts.
 * @param headerLimit - Maximum length of the header section, in bytes. White space around values does not count, since
 *   the parser skips it without storing it.
 */
export function checkHeaders(headerLimit: number): onRequestHookHandler {
  return (request, reply, done) => {
    const { raw } = request;
    if (closesBehindUpgrade(raw)) reply.header('connection', 'close');
    done(findFault(raw, headerLimit));
  };
}

function findFault(request: IncomingMessage, headerLimit: number): ApiError | undefined {
  const { method = '', url = '', httpVersion, headers, rawHeaders } = request;
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return new ApiError('malformedRequest', close);
  // 14 bytes: the request line's two spaces, version and line break, and the empty line after the header section.
  let size = method.length + url.length + 14;
  let hosts = 0;
  let authorizations = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    // 3 bytes: the colon and the line break.
    size += name.length + rawHeaders[i + 1]!.length + 3;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
    if (name.length === 13 && name.toLowerCase() === 'authorization') authorizations++;
  }
  if (size > headerLimit || rawHeaders.length > 2 * fieldLimit) return new ApiError('headersTooLarge', close);
  // RFC 9112 section 3.2.
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1') || outsideHost.test(headers.host ?? ''))
    return new ApiError('invalidHost');
  // Node takes the first one, and a proxy may take another (RFC 9110 section 5.3 forbids several).
  if (authorizations > 1)
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
  // RFC 9110 section 10.1.1.
  return expects(request)?.some((one) => one !== '100-continue') === true
    ? new ApiError('expectationFailed')
    : undefined;
}

/** The expectations of a request, in lower case; HTTP/1.0 has none. */
function expects({ httpVersion, headers }: IncomingMessage): string[] | undefined {
  if (httpVersion === '1.0') return undefined;
  return headers.expect?.split(',').map((one) => one.trim().toLowerCase());
}

/** Sends 100 Continue if the client waits for it before sending its body. */
export function continueIfExpected({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (expects(raw) !== undefined) reply.raw.writeContinue();
}
