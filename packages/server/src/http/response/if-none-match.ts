// Compares If-None-Match with an entity tag, to find out whether the client already has the current content.
import type { FastifyRequest } from 'fastify';

/**
 * Whether the request says that its client has the content with a tag (RFC 9110 section 13.1.2: tags are compared weakly).
 * @param tag - In quotes, without `W/`.
 */
export function isKnown({ headers }: FastifyRequest, tag: string): boolean {
  const known = headers['if-none-match'];
  // Splitting at a comma inside another server's tag is harmless: neither part can match.
  const tags = known?.split(',').map((one) => one.trim().replace(/^W\//, '')) ?? [];
  return tags.includes(tag) || known?.trim() === '*';
}
