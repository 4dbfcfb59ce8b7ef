// The floor: a bare Fastify that requires a header, parses bodies as JSON, and returns constants as long as the Plant
// Store's responses to the same requests.
import Fastify from 'fastify';

const plant = '{"name":"Monstera deliciosa","tag":"indoor"}';
/** @param {number} count */
const list = (count) => Buffer.from(`[${Array(count).fill(plant).join(',')}]`);
/** By the query. @type {Record<string, Buffer>} */
const lists = {
  '': list(100_000),
  '?limit=1': list(1),
  '?limit=20': list(20),
  '?limit=100': list(100),
};

const app = Fastify();
app.addHook('onRequest', (request, reply, done) => {
  reply.header('content-type', 'application/json; charset=utf-8');
  if (request.headers.authorization === undefined) {
    reply.code(401).send('{"error":40100,"message":"The access token is missing."}');
  } else {
    done();
  }
});
app.post('/plants', (_request, reply) => reply.send(plant));
app.get('/plants', (request, reply) => reply.send(lists[request.url.slice('/plants'.length)]));
app.delete('/plants/:id', (_request, reply) => reply.code(204).send());
await app.listen({ host: String(process.env['HOST']), port: Number(process.env['PORT']) });
