// What the HTTP parser lets through and the RFCs or our bounds do not: version, size, Host, framing, Expect.
import { type IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import { ApiError } from '../../errors.js';
import { closesBehindUpgrade } from './upgrade.js';

/** The most header fields that a request may have. */
const fieldLimit = 1_000;

/** Nothing that follows on the connection can be trusted to be a request, or is worth reading. */
const close = { headers: { connection: 'close' } };

/**
 * An onRequest hook: refuses what the HTTP parser lets through.
 * @param headerLimit - The longest header section, in bytes. White space around values does not count: the parser skips
 *   it as it arrives, and it takes no memory.
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
  // With the two spaces, the version and the line end of the first line, and the empty line.
  let size = method.length + url.length + 14;
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    // A field has a colon and a line end, too.
    size += name.length + rawHeaders[i + 1]!.length + 3;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  if (size > headerLimit || rawHeaders.length > 2 * fieldLimit) return new ApiError('headersTooLarge', close);
  // RFC 9112 section 3.2.
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1')) return new ApiError('invalidHost');
  const coding = headers['transfer-encoding'];
  if (coding !== undefined) {
    // RFC 9112 section 6.1: with HTTP/1.0 the framing is faulty.
    if (httpVersion === '1.0') return new ApiError('malformedRequest', close);
    if (coding.toLowerCase() !== 'chunked') {
      const detail = 'the only Transfer-Encoding is `chunked`';
      return new ApiError('unsupportedMediaType', { ...close, detail });
    }
  }
  // RFC 9110 section 10.1.1.
  return expects(request)?.some((one) => one !== '100-continue') === true
    ? new ApiError('expectationFailed')
    : undefined;
}

/** What a request expects; HTTP/1.0 knows no expectations. */
function expects({ httpVersion, headers }: IncomingMessage): string[] | undefined {
  if (httpVersion === '1.0') return undefined;
  return headers.expect?.split(',').map((one) => one.trim().toLowerCase());
}

/** Tells a client that waits for it (`Expect: 100-continue`) to send its body. */
export function continueIfExpected({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (expects(raw) !== undefined) reply.raw.writeContinue();
}
