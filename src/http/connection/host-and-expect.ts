// Host and Expect: what the HTTP parser lets through and the RFCs do not.
import { type IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import { ApiError } from '../../errors.js';
import { closesBehindUpgrade } from './upgrade.js';

export const expectations = new WeakMap<IncomingMessage, 'continue' | 'unknown'>();

/**
 * An onRequest hook: refuses what the HTTP parser lets through (RFC 9112 section 3.2 for Host, RFC 9110 section
 * 10.1.1 for Expect).
 */
export const checkHeaders: onRequestHookHandler = (request, reply, done) => {
  const { raw } = request;
  if (closesBehindUpgrade(raw)) reply.header('connection', 'close');
  let hosts = 0;
  for (let i = 0; i < raw.rawHeaders.length; i += 2) {
    const name = raw.rawHeaders[i]!;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  if (hosts > 1 || (hosts === 0 && raw.httpVersion === '1.1')) done(new ApiError('invalidHost'));
  else if (expectations.get(raw) === 'unknown') done(new ApiError('expectationFailed'));
  else done();
};

/** Tells a client that waits for it (`Expect: 100-continue`) to send its body. */
export function continueIfExpected(request: FastifyRequest, reply: FastifyReply): void {
  if (expectations.get(request.raw) === 'continue') reply.raw.writeContinue();
}
