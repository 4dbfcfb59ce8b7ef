// Closes connections so that the client can still read the last response (lingering close).
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** How much of an unwanted body is read before the connection is closed, in bytes. */
export const drainLimit = 64 * 1024;
/** How long a client may take to read the response and stop sending, in ms. */
const lingerTime = 2_000;

/** Connections that are being closed. */
export const closing = new WeakSet<Socket>();

/**
 * Closes a connection after its last response (RFC 9112 section 9.6). An immediate close while the client still sends
 * would reset the connection and lose the response. Further input is discarded, within limits of bytes and time.
 */
export function closeLingering(socket: Socket): void {
  if (closing.has(socket)) return;
  closing.add(socket);
  socket.end();
  let discarded = 0;
  socket.removeAllListeners('data');
  socket.on('data', (chunk: Buffer) => {
    discarded += chunk.length;
    if (discarded >= drainLimit) socket.pause();
  });
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), lingerTime).unref();
  socket.once('close', () => {
    clearTimeout(timer);
  });
}

/**
 * Makes every connection of a server close this way. After a response with `Connection: close`, Node calls the socket's
 * `destroySoon`, which closes at once; no option or event changes that.
 */
export function lingerOnClose(server: Server): void {
  const replaceClose = (socket: Socket) => {
    socket.destroySoon = () => {
      closeLingering(socket);
    };
  };
  server.on('connection', replaceClose).on('secureConnection', replaceClose);
}
