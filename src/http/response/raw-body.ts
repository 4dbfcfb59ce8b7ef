// Sends bodies of media types other than JSON: text and bytes whole, streams with backpressure.
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';

/**
 * Sends a body as it is. A stream that fails before its first chunk becomes an error response; later, it destroys the
 * connection, so that no client takes a part for the whole. HEAD does not read streams.
 * @param body - A RawBody; the type of a handler's result may have been circumvented.
 * @throws TypeError if the body is neither text, bytes nor a stream.
 */
export function sendRawBody(reply: FastifyReply, mediaType: string, body: unknown): FastifyReply {
  // Fastify would add a charset to the type of some texts.
  const whole = typeof body === 'string' ? Buffer.from(body) : body;
  if (whole instanceof Uint8Array) return reply.header('content-type', mediaType).send(whole);
  if (!isAsyncIterable(body)) {
    const given = body === null ? 'null' : typeof body;
    throw new TypeError(`a body of the type ${mediaType} is text, bytes or a stream of these, not ${given}`);
  }
  const stream = readableOf(body);
  reply.header('content-type', mediaType);
  if (reply.request.method !== 'HEAD') return reply.send(stream);
  stream.destroy();
  return reply.send();
}

/**
 * Turns the chunks of a stream into bytes. A chunk that is neither text nor bytes is an error of the new stream; written
 * to the connection directly, it would be an uncaught exception.
 */
function readableOf(source: AsyncIterable<unknown>): Readable {
  const stream = Readable.from(source, { objectMode: false });
  if (source instanceof Readable) {
    // Nothing else destroys the source, or listens for its errors, before its first chunk is read.
    source.on('error', () => undefined);
    stream.once('close', () => source.destroy());
  }
  return stream;
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
