// Closes a connection behind its last answer in a way that lets the client read it.
import type { Socket } from 'node:net';

/** How much of a body that nobody wants is read before the connection is given up, in bytes. */
export const drainLimit = 64 * 1024;
/** How long a client may take to read its answer and stop sending before the connection is given up, in ms. */
export const lingerTime = 2_000;

/**
 * Closes a connection behind its last answer (RFC 9112 section 9.6): closed at once while the client still sends, it would be
 * reset, and the answer lost. What still comes is discarded, up to a bound of bytes and time.
 */
export function closeGently(socket: Socket): void {
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

export const closing = new WeakSet<Socket>();
