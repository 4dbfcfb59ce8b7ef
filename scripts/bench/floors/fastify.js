// The floor for Fastify servers: parses the body as JSON and returns a constant; a hook returns 401.
import Fastify from 'fastify';
import { respond } from './responses.js';

const app = Fastify();
/** @param {import('fastify').FastifyRequest} request @param {import('fastify').FastifyReply} reply */
const handler = (request, reply) => {
  const { status, body } = respond(request.method, request.url, '');
  return reply.code(status).header('content-type', 'application/json; charset=utf-8').send(body);
};
app.post('/plants', handler);
app.get('/plants', handler);
app.delete('/plants/:id', handler);
app.post('/refused', {
  onRequest: (_request, reply) => {
    const { status, body } = respond('POST', '/plants', undefined);
    reply.code(status).header('content-type', 'application/json; charset=utf-8').send(body);
  },
  handler,
});
await app.listen({ host: String(process.env['HOST']), port: Number(process.env['PORT']) });
