// A peer: fastify-openapi-glue as its documentation shows, from the same contract.
import Fastify from 'fastify';
import openapiGlue from 'fastify-openapi-glue';
import { fileURLToPath } from 'node:url';

const { openStore } = await import(
  process.env.DATABASE_URL.startsWith('file:') ? './store.js' : './postgres-store.js'
);
const store = await openStore();
const app = Fastify();
app.setErrorHandler((error, _request, reply) => {
  const status = error.statusCode ?? 500;
  reply.code(status).send({ error: status * 100, message: error.message });
});
await app.register(openapiGlue, {
  specification: fileURLToPath(new URL('../../../openapi.yaml', import.meta.url)),
  serviceHandlers: {
    createPlant: async (request, reply) => {
      const { name, tag } = request.body;
      if (await store.create(request.subject, request.body)) return { name, tag };
      return reply.code(400).send({ error: 40010, message: 'taken' });
    },
    listPlants: async (request) => store.list(request.subject, request.query.limit),
    deletePlant: async (request, reply) => {
      if (await store.delete(request.subject, Number(request.params.id))) return reply.code(204).send();
      return reply.code(404).send({ error: 40400, message: 'not found' });
    },
  },
  securityHandlers: {
    bearerAuth: async (request) => {
      request.subject = store.subjectOf(request.headers.authorization?.slice(7));
      if (request.subject === undefined) throw new Error('no token');
    },
  },
});
await app.listen({ host: process.env.HOST, port: Number(process.env.PORT) });
