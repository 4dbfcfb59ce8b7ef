// CONNECT and Upgrade, at which Node lets go of a connection: the one is refused, the other is ignored.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ApiError } from '../../errors.js';
import { endWithError } from './client-errors.js';
import { pipelines } from './request-order.js';

/**
 * Refuses CONNECT, and handles a request with an Upgrade as if it had none (RFC 9110 section 7.8). Node itself would
 * answer the latter, but drop what arrived together with it; the body of the next request could then run as a request.
 * @param attach - The server's event for a connection from which it is to read requests.
 */
export function stayWithHttp(server: Server, attach: 'connection' | 'secureConnection'): void {
  server.on('connect', (_: IncomingMessage, socket: Socket) => {
    whenAnswered(server, socket, () => {
      endWithError(socket.on('error', ignore), new ApiError('pathNotFound'));
    });
  });
  server.on('upgrade', (request: IncomingMessage, socket: Socket, behind: Buffer) => {
    socket.unshift(behind);
    socket.unshift(headWithoutUpgrade(request));
    whenAnswered(server, socket, () => server.emit(attach, socket));
  });
}

/**
 * Options for those versions of Node that know them: some of these parse the body before they let go of the connection,
 * so that the request cannot be read again. It is handled like any other then, and closesBehindUpgrade recognizes it.
 */
export const upgradeOptions = {
  shouldUpgradeCallback: ({ headers }: IncomingMessage): boolean =>
    headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0',
};

/** Whether Node may have dropped what arrived behind a request: then its connection must close. */
export function closesBehindUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && /\bupgrade\b/i.test(headers.connection ?? '');
}

/** A request's head as it arrived, but without Upgrade. */
function headWithoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage): Buffer {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`);
  }
  // Node's parser takes every byte for a character.
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
}

/**
 * Calls back when the answers are out that a connection owes, at once when there are none, and never when it closes
 * behind them. Until then this takes care of the socket's errors and time-outs, which Node has let go of.
 */
function whenAnswered(server: Server, socket: Socket, then: () => void): void {
  const timeOut = () => server.emit('timeout', socket);
  // As long as there is a listener for 'readable', resume() discards nothing.
  socket.on('error', ignore).on('timeout', timeOut).on('readable', ignore);
  const release = () => {
    socket.off('readable', ignore);
    if (!socket.writable) return;
    socket.off('error', ignore).off('timeout', timeOut);
    then();
  };
  const last: ServerResponse | undefined = pipelines.get(socket)?.last;
  if (last?.closed === false) last.once('close', release);
  else release();
}

function ignore(): void {
  // What happens is dealt with elsewhere, or not worth a word.
}
