// What becomes of a body that nobody reads.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { drainLimit } from './lingering-close.js';

/**
 * Called when an answer is about to be sent: a body that has not been read, as of a refused request, is not read to
 * its end just to keep the connection. Up to a bound it is, from now on; beyond, the connection closes behind the answer.
 * @param keep - How long a body may be, in bytes, to be read to its end; by default 64 KiB.
 */
export function settleUnreadBody(request: FastifyRequest, reply: FastifyReply, keep = drainLimit): void {
  const { raw } = request;
  const { 'content-length': length, 'transfer-encoding': coding } = raw.headers;
  if (coding === undefined && (length === undefined || length === '0')) return;
  if (raw.complete) return;
  if (coding !== undefined || Number(length) > keep) reply.header('connection', 'close');
  // Node would discard it only from when the answer is out, and keep it in a stream until then, which takes a tenth of a 401's time.
  else if (raw.readableFlowing === null) raw.resume();
}
