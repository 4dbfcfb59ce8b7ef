// The load generator's own limit: a socket that replies to each chunk with prepared bytes and parses nothing.
import { createServer } from 'node:net';
import { respond } from './responses.js';

/** @type {Map<string, Buffer>} */
const made = new Map();

createServer({ noDelay: true }, (socket) => {
  socket.on('data', (request) => {
    const [method = '', path = ''] = request.toString('latin1', 0, 24).split(' ', 2);
    const authorized = request.includes('Authorization');
    const key = `${method} ${method === 'GET' ? path : ''} ${authorized}`;
    let bytes = made.get(key);
    if (bytes === undefined) {
      const { status, body } = respond(method, path, authorized ? '' : undefined);
      bytes = Buffer.concat([
        Buffer.from(`HTTP/1.1 ${status} Status\r\nContent-Length: ${body.length}\r\n\r\n`),
        body,
      ]);
      made.set(key, bytes);
    }
    socket.write(bytes);
  });
  socket.on('error', () => {});
}).listen(Number(process.env['PORT']), process.env['HOST']);
