// Checks what the HTTP parser does not: version, Host, framing and Expect.
import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import { ApiError } from '../../base/errors.js';
import { drainLimit } from './connection.js';

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
  const { httpVersion, headers } = request;
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return new ApiError('malformedRequest', close);
  // RFC 9112 section 3.2. Several are joined, with a space.
  const { host = httpVersion === '1.0' ? '' : ' ' } = headers;
  if (outsideHost.test(host)) return new ApiError('invalidHost');
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

/** The expectation of a request, in lower case (RFC 9110 section 10.1.1); HTTP/1.0 has none. */
function expectationOf({ httpVersion, headers }: IncomingMessage): string | undefined {
  return httpVersion === '1.0' ? undefined : headers.expect?.toLowerCase();
}

/** Sends 100 Continue if the client waits for it before sending its body. */
export function continueIfExpected({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (expectationOf(raw) !== undefined) reply.raw.writeContinue();
}

/**
 * Settles an unread body before its response is sent: Node.js discards a short one behind the response; a longer one, and
 * one for which the client may still wait to be asked, close the connection.
 */
export function settleUnreadBody({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (raw.complete) return;
  const { 'content-length': length, 'transfer-encoding': coding } = raw.headers;
  const limit = expectationOf(raw) === undefined ? drainLimit : 0;
  if (coding !== undefined || Number(length) > limit) reply.header('connection', 'close');
}
