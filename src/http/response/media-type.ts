// Gives JSON responses the media type that the contract declares.
import type { FastifyReply, FastifyRequest } from 'fastify';

/**
 * An onSend hook that removes the charset from the media type of JSON: RFC 8259 section 11 defines none, and strict
 * clients compare the header with the contract. Fastify adds it to every JSON response that is not a Buffer.
 */
export function declareMediaType(
  _request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: null, payload: unknown) => void,
): void {
  if (reply.getHeader('content-type') === 'application/json; charset=utf-8') {
    reply.header('content-type', 'application/json');
  }
  done(null, payload);
}
