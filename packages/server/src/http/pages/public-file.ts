// Serves a file without authentication, with a validator for caches.
import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isKnown } from '../response/json-array.js';

/** A file as it is served. */
export interface PublicFile {
  readonly url: string;
  readonly mediaType: string;
  /** The value of Cache-Control: how long caches may use the file (RFC 9111 section 5.2.2). */
  readonly cacheControl: string;
  /** Further headers of its responses. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Makes its content, at its first request. */
  content(): Buffer;
}

/** Serves a file, unless the app has a route for its URL. */
export function serveFile(app: FastifyInstance, file: PublicFile): void {
  const { url, mediaType, cacheControl, headers = {} } = file;
  if (app.hasRoute({ method: 'GET', url })) return;
  let content: Buffer | undefined;
  let tag: string | undefined;
  const handler = (request: FastifyRequest, reply: FastifyReply) => {
    content ??= file.content();
    tag ??= `"${hash('sha256', content, 'base64url')}"`;
    // A 304 has all of these, too: caches put them in the place of those that they keep (RFC 9111 section 4.3.4).
    reply.headers({ ...headers, 'cache-control': cacheControl, etag: tag });
    if (isKnown(request, tag)) return reply.code(304).send();
    return reply.type(mediaType).send(content);
  };
  app.route({ method: ['GET', 'HEAD'], url, config: { isOfServer: true }, handler });
}
