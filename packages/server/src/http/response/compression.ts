// Compresses responses with gzip and respects backpressure, which Fastify's plugin ignores.
import { negotiate } from '@fastify/accept-negotiator';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { pipeline, Readable } from 'node:stream';
import { promisify } from 'node:util';
import { createGzip, gzip } from 'node:zlib';

/** Minimum length to compress, in bytes: shorter responses are smaller than their headers. */
const minLength = 1024;

/** Maximum number of responses being compressed: each takes 300 kB until its client has read it. */
const mostCompressed = 64;

/** Compresses a whole body. */
export const compress = promisify(gzip);

/** Whether a client accepts gzip (RFC 9110 section 12.5.3). */
export function acceptsGzip({ headers }: FastifyRequest): boolean {
  return negotiate(headers['accept-encoding'] ?? '', ['gzip']) !== null;
}

/** Adds Accept-Encoding to Vary, so that caches keep one response for each coding. */
export function varyByCoding(reply: FastifyReply): void {
  const name = 'accept-encoding';
  const known = [reply.getHeader('vary') ?? []].flat().join(', ');
  if (!known.toLowerCase().includes(name)) reply.header('vary', known === '' ? name : `${known}, ${name}`);
}

/**
 * Compresses responses for clients that accept gzip; while many are being compressed, further ones are sent as they are.
 * Call it before registering routes.
 */
export function compressResponses(app: FastifyInstance): void {
  let compressed = 0;
  app.addHook('onRequest', (_request, reply, done) => {
    // Caches need it on uncompressed responses too.
    varyByCoding(reply);
    done();
  });
  app.addHook(
    'onSend',
    (request, reply, payload: unknown, done: (error: Error | null, payload?: unknown) => void) => {
      const whole = Buffer.isBuffer(payload) || typeof payload === 'string';
      const worthIt = whole ? payload.length >= minLength : payload instanceof Readable;
      const isImage = String(reply.getHeader('content-type')).startsWith('image/');
      const isCoded = reply.hasHeader('content-encoding');
      if (!worthIt || isImage || isCoded || compressed >= mostCompressed || !acceptsGzip(request)) {
        done(null, payload);
        return;
      }
      compressed++;
      reply.header('content-encoding', 'gzip').removeHeader('content-length');
      // A strong tag names the bytes of one coding (RFC 9110 section 8.8.3.3).
      const tag = reply.getHeader('etag');
      if (typeof tag === 'string' && tag.startsWith('"')) reply.header('etag', `W/${tag}`);
      if (whole) {
        compress(payload)
          .finally(() => compressed--)
          .then((bytes) => {
            done(null, bytes);
          }, done);
      } else {
        // An error of either stream destroys the other, so Fastify sees it.
        const stream = pipeline(payload as Readable, createGzip(), () => compressed--);
        done(null, stream);
      }
    },
  );
  // If a list fails before its first byte, its Error body is sent uncompressed.
  app.addHook('onError', (_request, reply, _error, done) => {
    reply.removeHeader('content-encoding');
    done();
  });
}
