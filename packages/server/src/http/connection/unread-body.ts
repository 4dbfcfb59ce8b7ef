// Handles bodies that no handler reads, such as those of refused requests.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { drainLimit } from './connection.js';

/**
 * Handles an unread body before the response is sent: discards a short one as it arrives, and closes the connection
 * after the response for a longer one.
 */
export function settleUnreadBody({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (raw.complete) return;
  const { 'content-length': length, 'transfer-encoding': coding } = raw.headers;
  if (coding !== undefined || Number(length) > drainLimit) reply.header('connection', 'close');
  // Node would buffer the body until the response is sent, and only then discard it.
  else if (raw.readableFlowing === null) raw.resume();
}
