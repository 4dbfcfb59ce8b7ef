// Bodies that are not read, as those of refused requests: discarded, or cut off with their connection.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { drainLimit } from './lingering-close.js';

/**
 * Settles what becomes of a body that has not been read when its answer is about to be sent: up to a bound it is
 * discarded as it arrives; beyond, the connection closes behind the answer.
 * @param keep - How long a body may be, in bytes, to be read to its end; by default 64 KiB.
 */
export function settleUnreadBody(request: FastifyRequest, reply: FastifyReply, keep = drainLimit): void {
  const { raw } = request;
  const { 'content-length': length, 'transfer-encoding': coding } = raw.headers;
  if (coding === undefined && (length === undefined || length === '0')) return;
  if (raw.complete) return;
  if (coding !== undefined || Number(length) > keep) reply.header('connection', 'close');
  // Node would discard it only when the answer is out, and buffer it until then.
  else if (raw.readableFlowing === null) raw.resume();
}
