// Reports each request when it starts, and when its response is sent or its connection is lost.
import { LogController, type FastifyReply, type FastifyRequest } from 'fastify';
import { ApiError } from '../base/errors.js';
import type { Report } from '../base/events.js';
import { connectionOf } from '../http/connection/connection.js';
import { addressOf } from '../http/headers/client-address.js';
import { StorageError } from '../storage/core/interface.js';

/** Takes the place of Fastify's own log lines. */
export class RequestEvents extends LogController {
  readonly #report: Report;

  constructor(report: Report) {
    super({ requestIdLogLabel: 'requestId' });
    this.#report = report;
  }

  override incomingRequest(request: FastifyRequest, reply: FastifyReply): void {
    // Read it now: a closed connection has no address. The connection may be closed already.
    const address = addressOf(request);
    this.#report({ type: 'request started' });
    // Fastify does not call requestCompleted when the client disconnects.
    reply.raw.on('close', () => {
      const { failure: error } = request;
      if (error !== undefined && error.statusCode >= 500 && error.statusCode !== 501)
        this.#report({ type: 'request failed', request, error });
      const { socket } = request.raw;
      // A connection that has left HTTP is closed by its owner. Otherwise, `writableFinished` alone is also true for data
      // that a lost connection has dropped.
      const isSent =
        connectionOf(request.raw)?.isReleased === true
          ? socket.errored === null
          : reply.raw.writableFinished && !socket.destroyed;
      this.#report({ type: 'request ended', request, reply, isSent, address });
    });
  }

  override requestCompleted(): void {
    // incomingRequest reports the end.
  }

  override routeNotFound(): void {
    // The line of the request has the status.
  }

  override streamError(error: Error, request: FastifyRequest, reply: FastifyReply): void {
    // The line of the request shows that the client disconnected.
    if ('code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE') return;
    if (error instanceof StorageError)
      this.#report({ type: 'request failed', request, error: new ApiError('unavailable', { cause: error }) });
    else super.streamError(error, request, reply);
  }
}
