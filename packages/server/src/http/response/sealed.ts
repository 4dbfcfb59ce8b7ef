// Keeps a response of the contract as it was checked, whatever hooks of the service's plugins do with it.
import { Readable } from 'node:stream';
import type { FastifyReply, onSendHookHandler } from 'fastify';

/** A payload that Fastify sends unchanged. */
export type Payload = string | Buffer | Readable | undefined;

/** A response that was checked: what must not change. */
interface Sealed {
  readonly payload: Payload;
  readonly status: number;
  readonly contentType: string;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The newest response to it that was checked. */
    sealed: Sealed | undefined;
  }
}

/** Sends a payload that has been checked, with its status and media type. */
export function sendSealed(reply: FastifyReply, payload: Payload): FastifyReply {
  reply.request.sealed = { payload, status: reply.statusCode, contentType: contentTypeOf(reply) };
  return reply.send(payload);
}

/**
 * The last onSend hook of a route of the contract. Of a changed result, it makes an error; an error is sent as it was
 * written.
 */
export const keepSealed: onSendHookHandler = (request, reply, payload, done) => {
  const { sealed, failure } = request;
  const isSame =
    sealed?.payload === payload &&
    sealed?.status === reply.statusCode &&
    isSameType(contentTypeOf(reply), sealed.contentType) &&
    !reply.hasHeader('content-encoding');
  if (isSame || (sealed !== undefined && failure !== undefined)) {
    if (!isSame) restore(reply, sealed);
    done(null, sealed.payload);
    return;
  }
  if (sealed?.payload instanceof Readable) sealed.payload.destroy();
  const { operationId } = request.routeOptions.config;
  done(
    new Error(`a hook changed a response of ${operationId}: only the contract's handlers decide about it`),
  );
};

function restore(reply: FastifyReply, { status, contentType }: Sealed): void {
  reply.code(status).removeHeader('content-encoding').removeHeader('content-length');
  if (contentType !== '') reply.header('content-type', contentType);
}

/** The Content-Type of a response; empty if it has none. */
function contentTypeOf(reply: FastifyReply): string {
  return String(reply.getHeader('content-type') ?? '');
}

/** Whether a type is the one that was checked: a charset may have been added to it, or removed. */
function isSameType(type: string, checked: string): boolean {
  return type === checked || type.startsWith(`${checked};`) || checked.startsWith(`${type};`);
}
