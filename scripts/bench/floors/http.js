// The floor for Node.js servers: bare node:http, which reads the body and returns a constant.
import { createServer } from 'node:http';
import { respond } from './responses.js';

createServer((request, response) => {
  request.on('data', () => {});
  request.on('end', () => {
    const { status, body } = respond(request.method, request.url, request.headers.authorization);
    response.writeHead(status, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': body.length,
    });
    response.end(body);
  });
}).listen(Number(process.env['PORT']), process.env['HOST']);
