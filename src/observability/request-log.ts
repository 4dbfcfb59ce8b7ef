// One line of log for each request, without anything secret: no header values, no queries, no bodies.
import { LogController, type FastifyReply, type FastifyRequest } from 'fastify';
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { symbols } from 'pino';

const clientRequestId = /^[\w.-]{1,64}$/;
const processId = randomBytes(4).toString('hex');
let requests = 0;

/** The id of a request: the client's own X-Request-Id when it has the form that the contract tells, else a new one. */
export function requestId(request: Pick<IncomingMessage, 'headers'>): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && clientRequestId.test(given) ? given : `${processId}-${++requests}`;
}

/** W3C Trace Context, section 3.2. */
const traceparent = /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/;

/** Fastify's log lines: nothing when a request arrives, one line when its answer is out, or when it will never be. */
export class RequestLog extends LogController {
  constructor() {
    super({ requestIdLogLabel: 'requestId' });
  }

  override incomingRequest(request: FastifyRequest, reply: FastifyReply): void {
    // A connection that is gone does not tell it any more, and may be gone already.
    const address: string | undefined = request.ip;
    // Fastify's own requestCompleted does not hear of a client that hangs up.
    reply.raw.on('close', () => {
      logRequest(reply, address);
    });
  }

  override requestCompleted(): void {
    // Its line is written when the response closes.
  }

  override routeNotFound(): void {
    // The status in the line tells it.
  }

  override streamError(error: Error, request: FastifyRequest, reply: FastifyReply): void {
    // That the client has hung up, the line tells.
    if ('code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE') return;
    super.streamError(error, request, reply);
  }
}

/** What a line takes over from pino. The logger of a service that logs nothing is not pino's, and has none of it. */
interface RequestLogger {
  isLevelEnabled?(level: string): boolean;
  readonly [symbols.streamSym]: { write(line: string): void };
  /** What stands in each of its lines, as JSON behind a comma: the request's id, the process and the host. */
  readonly [symbols.chindingsSym]: string;
}

/**
 * Writes the line of a request, in pino's form. Pino itself would make it from an object in twice the time, and that comes to
 * some 4 % of a refused request (DESIGN.md).
 */
function logRequest(reply: FastifyReply, address: string | undefined): void {
  const log = reply.log as unknown as RequestLogger;
  if (log.isLevelEnabled?.('info') !== true) return;
  const { request } = reply;
  const { headersSent, writableFinished: answered } = reply.raw;
  const { method, originalUrl } = request;
  // A query may hold what somebody took for a place to put a token.
  const query = originalUrl.indexOf('?');
  const path = query === -1 ? originalUrl : originalUrl.slice(0, query);
  const trace = request.headers['traceparent'];
  let fields = `"method":"${method}","path":${JSON.stringify(path)}`;
  if (answered || headersSent) fields += `,"status":${reply.statusCode}`;
  if (request.errorCode !== undefined) fields += `,"error":${request.errorCode}`;
  if (!answered) fields += ',"aborted":true';
  fields += `,"ms":${reply.elapsedTime.toFixed(3)}`;
  if (address !== undefined) fields += `,"address":${JSON.stringify(address)}`;
  if (request.caller) fields += `,"subject":${JSON.stringify(request.caller.subject)}`;
  if (typeof trace === 'string' && traceparent.test(trace)) fields += `,"traceparent":"${trace}"`;
  const message = answered ? 'request' : 'request broken off';
  log[symbols.streamSym].write(
    `{"level":30,"time":${Date.now()}${log[symbols.chindingsSym]},${fields},"msg":"${message}"}\n`,
  );
}
