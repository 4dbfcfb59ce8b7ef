// Serves a file without authentication: with a validator for caches, compressed for clients that accept it.
import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { acceptsGzip, compress, varyByCoding } from '../response/compression.js';
import { isKnown } from '../response/if-none-match.js';

/** A file as it is served. */
export interface PublicFile {
  readonly url: string;
  readonly mediaType: string;
  /** The value of Cache-Control, which says how long caches may use the file (RFC 9111 section 5.2.2). */
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
  let digest: string | undefined;
  // Compressing a large file takes long, so its result is kept.
  let compressed: Promise<Buffer> | undefined;
  const handler = async (request: FastifyRequest, reply: FastifyReply) => {
    content ??= file.content();
    digest ??= hash('sha256', content, 'base64url');
    const coded = acceptsGzip(request);
    const body = coded ? await (compressed ??= compress(content)) : content;
    // A strong tag names bytes, so each coding has its own (RFC 9110 section 8.8.3.3).
    const tag = coded ? `"${digest}-gzip"` : `"${digest}"`;
    // A 304 has all of these, too: caches put them in the place of those that they keep (RFC 9111 section 4.3.4).
    reply.headers({ ...headers, 'cache-control': cacheControl, etag: tag });
    varyByCoding(reply);
    if (isKnown(request, tag)) return reply.code(304).send();
    reply.type(mediaType);
    if (coded) reply.header('content-encoding', 'gzip');
    return reply.send(body);
  };
  app.route({ method: ['GET', 'HEAD'], url, handler });
}
