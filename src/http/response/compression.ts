// Compresses answers with gzip. Fastify's plugin would read a long list as fast as it can, however slow its reader is.
import { negotiate } from '@fastify/accept-negotiator';
import type { FastifyInstance } from 'fastify';
import { pipeline, Readable } from 'node:stream';
import { promisify } from 'node:util';
import { createGzip, gzip } from 'node:zlib';

/** What is shorter, in bytes, stays as it is: its headers weigh as much. */
const shortest = 1024;

const compress = promisify(gzip);
const compressedFiles = new WeakMap<Buffer, Promise<Buffer>>();

/** What a file is compressed, which takes long for some: made once, and again only when that has failed. */
function compressFile(file: Buffer): Promise<Buffer> {
  const known = compressedFiles.get(file);
  if (known !== undefined) return known;
  const compressed = compress(file);
  compressedFiles.set(file, compressed);
  compressed.catch(() => compressedFiles.delete(file));
  return compressed;
}

/** Makes the answers gzip for those who accept it. To be called before the routes. */
export function compressAnswers(app: FastifyInstance): void {
  app.addHook('onRequest', (_request, reply, done) => {
    // A cache must know it of the answers that are not compressed, too.
    reply.header('vary', 'accept-encoding');
    done();
  });
  app.addHook(
    'onSend',
    (request, reply, payload: unknown, done: (error: Error | null, payload?: unknown) => void) => {
      const isFile = Buffer.isBuffer(payload);
      const whole = isFile || typeof payload === 'string';
      const worthIt = whole ? payload.length >= shortest : payload instanceof Readable;
      const isImage = String(reply.getHeader('content-type')).startsWith('image/');
      const isCoded = reply.hasHeader('content-encoding');
      if (
        !worthIt ||
        isImage ||
        isCoded ||
        negotiate(request.headers['accept-encoding'] ?? '', ['gzip']) === null
      ) {
        done(null, payload);
        return;
      }
      reply.header('content-encoding', 'gzip').removeHeader('content-length');
      if (whole) {
        // Text is made for its request; a Buffer may be a file, the same one for all of its readers.
        const compressed = isFile ? compressFile(payload) : compress(payload);
        compressed.then((bytes) => {
          done(null, bytes);
        }, done);
      } else {
        // An error of either stream reaches Fastify through the other.
        const compressed = pipeline(payload as Readable, createGzip(), () => undefined);
        done(null, compressed);
      }
    },
  );
  // A list that fails before its first byte is answered by an Error body, as it is.
  app.addHook('onError', (_request, reply, _error, done) => {
    reply.removeHeader('content-encoding');
    done();
  });
}
