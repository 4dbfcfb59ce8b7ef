// Gives JSON responses the media type that the contract declares.
import type { FastifyReply } from 'fastify';

/**
 * Removes the charset from the media type of a JSON response: RFC 8259 section 11 defines none, and strict clients
 * compare the header with the contract. Call it in an onSend hook, because Fastify adds the charset just before.
 */
export function declareMediaType(reply: FastifyReply): void {
  const type = reply.getHeader('content-type');
  if (type === 'application/json; charset=utf-8') reply.header('content-type', 'application/json');
  else if (typeof type === 'string' && type.endsWith('+json; charset=utf-8')) {
    reply.header('content-type', type.slice(0, type.indexOf(';')));
  }
}
