// Which connections hold up the closing of the server, and how they are closed.
import { type Server } from 'node:http';
import type { Socket } from 'node:net';
import { lingerTime } from './lingering-close.js';

/**
 * Sees to it that a connection on which nothing has ever come does not hold up the closing of the server: to Node it is no
 * idle one.
 * @returns A function that closes the connections of that kind.
 */
export function trackUnusedConnections(server: Server): () => void {
  const sockets = new Set<Socket>();
  let closing = false;
  const closeUnused = (socket: Socket) => {
    if (socket.bytesRead === 0) socket.destroy();
  };
  const track = (socket: Socket) => {
    sockets.add(socket);
    // One that was under way when the closing began: what it has to say should come soon.
    const timer = closing ? setTimeout(closeUnused, lingerTime, socket).unref() : undefined;
    socket.once('close', () => {
      sockets.delete(socket);
      clearTimeout(timer);
    });
  };
  // Over TLS a connection is there after its handshake, and its bytes are counted anew.
  server.on('connection', track).on('secureConnection', track);
  return () => {
    closing = true;
    for (const socket of sockets) closeUnused(socket);
  };
}
