// Logs one line per request, without secrets: no credentials, no query strings, no bodies.
import { LogController, type FastifyReply, type FastifyRequest } from 'fastify';
import type { ServerResponse } from 'node:http';
import { addressOf } from '../http/headers/client-address.js';
import { ApiError } from '../base/errors.js';
import { InvalidCredential } from '../http/security/verifier.js';
import { StorageError } from '../storage/core/interface.js';
import { createFailureLog } from './failure-log.js';

/** The format of W3C Trace Context, section 3.2. */
const traceparent = /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/;

/** Replaces Fastify's log lines with one line per request, when its response is sent or its connection is lost. */
export class RequestLog extends LogController {
  readonly #failures: ReturnType<typeof createFailureLog>;

  /**
   * @param now - A monotonic clock, in ms.
   * @param checkStore - Resolves if the store can serve; rejects otherwise.
   * @param countDamage - Called for each request that failed because what is stored is damaged.
   */
  constructor(now: () => number, checkStore: () => Promise<void>, countDamage?: () => void) {
    super({ requestIdLogLabel: 'requestId' });
    this.#failures = createFailureLog(now, checkStore, countDamage);
  }

  override incomingRequest(request: FastifyRequest, reply: FastifyReply): void {
    // Read it now: a closed connection has no address. The connection may be closed already.
    const address = addressOf(request);
    // Fastify does not call requestCompleted when the client disconnects.
    reply.raw.on('close', () => {
      const { failure } = request;
      if (failure !== undefined && failure.statusCode >= 500 && failure.statusCode !== 501) {
        this.#failures.failed(failure, request, reply.log);
      } else if (failure === undefined && reply.raw.headersSent) {
        this.#failures.succeeded(request, reply.log);
      }
      logRequest(reply, address);
    });
  }

  override requestCompleted(): void {
    // incomingRequest logs the line when the response closes.
  }

  override routeNotFound(): void {
    // The line of the request has the status.
  }

  override streamError(error: Error, request: FastifyRequest, reply: FastifyReply): void {
    // The line of the request shows that the client disconnected.
    if ('code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE') return;
    if (error instanceof StorageError)
      this.#failures.failed(new ApiError('unavailable', { cause: error }), request, reply.log);
    else super.streamError(error, request, reply);
  }
}

/**
 * Whether the operating system has accepted the whole response; the client may not have received it. Call it when the
 * response closes. `writableFinished` alone is also true for data that a lost connection has dropped.
 */
export function isSent(response: ServerResponse): boolean {
  return response.writableFinished && !response.req.socket.destroyed;
}

function logRequest(reply: FastifyReply, address: string): void {
  const { request, raw } = reply;
  const { method, originalUrl, headers, failure, caller } = request;
  const completed = isSent(raw);
  const status = completed || raw.headersSent ? reply.statusCode : undefined;
  const trace = headers['traceparent'];
  reply.log[levelOf(status)](
    {
      method,
      path: withoutSecrets(originalUrl),
      status,
      error: failure?.code,
      reason: failure?.cause instanceof InvalidCredential ? failure.cause.reason : undefined,
      aborted: completed ? undefined : true,
      ms: Number(reply.elapsedTime.toFixed(3)),
      address: address === '' ? undefined : address,
      subject: caller?.subject,
      tokenId: caller?.tokenId,
      traceparent: typeof trace === 'string' && traceparent.test(trace) ? trace : undefined,
    },
    completed ? 'request' : 'request broken off',
  );
}

/**
 * A 503 is a warning, since the operator can resolve its cause; so is a 501, since the operation is not written yet. Any
 * other 5xx is an error: a bug in the program.
 */
function levelOf(status: number | undefined): 'info' | 'warn' | 'error' {
  if (status === undefined || status < 500) return 'info';
  return status === 503 || status === 501 ? 'warn' : 'error';
}

/** Removes the parts of a request target that may contain secrets: the user information and the query string. */
function withoutSecrets(target: string): string {
  const known = target.startsWith('/') ? target : target.replace(/:\/\/[^/]*@/, '://');
  return known.split('?', 1)[0] ?? '';
}
