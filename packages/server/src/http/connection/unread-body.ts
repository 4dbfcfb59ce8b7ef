// Handles bodies that no handler reads, such as those of refused requests.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { drainLimit } from './connection.js';

/**
 * Handles an unread body before the response is sent: discards a short one as it arrives, and closes the connection
 * after the response for a longer one.
 * @param keep - Maximum length of a body that is discarded, in bytes; 64 KiB by default.
 */
export function settleUnreadBody(request: FastifyRequest, reply: FastifyReply, keep = drainLimit): void {
  const { raw } = request;
  const { 'content-length': length, 'transfer-encoding': coding } = raw.headers;
  if (coding === undefined && (length === undefined || length === '0')) return;
  if (raw.complete) return;
  if (coding !== undefined || Number(length) > keep) reply.header('connection', 'close');
  // Node would buffer the body until the response is sent, and only then discard it.
  else if (raw.readableFlowing === null) raw.resume();
}
