// One line of log for each request, without anything secret: no header values, no queries, no bodies.
import { LogController, type FastifyReply, type FastifyRequest } from 'fastify';
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { FailureLog } from './failure-log.js';

const clientRequestId = /^[\w.-]{1,64}$/;
const processId = randomBytes(4).toString('hex');
let requests = 0;

/** The id of a request: the client's own X-Request-Id when it has the form that the contract gives, else a new one. */
export function requestId(request: Pick<IncomingMessage, 'headers'>): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && clientRequestId.test(given) ? given : `${processId}-${++requests}`;
}

/** W3C Trace Context, section 3.2. */
const traceparent = /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/;

/** Fastify's log lines: nothing when a request arrives, one line when its answer is out, or when it will never be. */
export class RequestLog extends LogController {
  readonly #failures: FailureLog;

  /** @param now - A time in milliseconds that never goes back. */
  constructor(now: () => number) {
    super({ requestIdLogLabel: 'requestId' });
    this.#failures = new FailureLog(now);
  }

  override incomingRequest(request: FastifyRequest, reply: FastifyReply): void {
    // Read now, since a connection that is gone has none; it may be gone already.
    const address: string | undefined = request.ip;
    // Fastify's own requestCompleted does not hear of a client that hangs up.
    reply.raw.on('close', () => {
      if (request.failure !== undefined && request.failure.statusCode >= 500) {
        this.#failures.failed(request.failure, reply.log);
      } else {
        this.#failures.succeeded(reply.log);
      }
      logRequest(reply, address);
    });
  }

  override requestCompleted(): void {
    // Its line is written when the response closes.
  }

  override routeNotFound(): void {
    // The status in the request's line says it.
  }

  override streamError(error: Error, request: FastifyRequest, reply: FastifyReply): void {
    // A client that hung up is in the request's line.
    if ('code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE') return;
    super.streamError(error, request, reply);
  }
}

/**
 * Whether the system has taken all of an answer, as far as the process can know; whether its client has got it, nobody
 * can. To be asked when the response closes.
 * @param response - It alone would call what a lost connection has dropped finished.
 */
export function isSent(response: ServerResponse): boolean {
  return response.writableFinished && !response.req.socket.destroyed;
}

function logRequest(reply: FastifyReply, address: string | undefined): void {
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
      aborted: completed ? undefined : true,
      ms: Number(reply.elapsedTime.toFixed(3)),
      address,
      subject: caller?.subject,
      traceparent: typeof trace === 'string' && traceparent.test(trace) ? trace : undefined,
    },
    completed ? 'request' : 'request broken off',
  );
}

/** What nobody but the operator can change is a warning; a fault of the program is an error. */
function levelOf(status: number | undefined): 'info' | 'warn' | 'error' {
  if (status === undefined || status < 500) return 'info';
  return status === 503 ? 'warn' : 'error';
}

/** A target without what may hold a secret: the name and password before its host, and its query. */
function withoutSecrets(target: string): string {
  const known = target.startsWith('/') ? target : target.replace(/:\/\/[^/]*@/, '://');
  return known.split('?', 1)[0] ?? '';
}
