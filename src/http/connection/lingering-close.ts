// The lingering close: a connection ends behind its last answer in a way that lets the client read that answer.
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** How much of a body that nobody wants is read before the connection is given up, in bytes. */
export const drainLimit = 64 * 1024;
/** How long a client may take to read its answer and stop sending before the connection is given up, in ms. */
const lingerTime = 2_000;

/** The connections that are being closed. */
export const closing = new WeakSet<Socket>();

/**
 * Closes a connection behind its last answer (RFC 9112 section 9.6): closed at once while the client still sends, it
 * would be reset, and the answer lost. What still arrives is discarded, up to a bound of bytes and time.
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
 * Makes every connection of a server end by the lingering close. Behind an answer that says `Connection: close` Node
 * calls its socket's `destroySoon`, which closes at once, and has no option or event to have it otherwise.
 */
export function lingerOnClose(server: Server): void {
  const replaceClose = (socket: Socket) => {
    socket.destroySoon = () => {
      closeLingering(socket);
    };
  };
  server.on('connection', replaceClose).on('secureConnection', replaceClose);
}
