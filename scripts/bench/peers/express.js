// A peer: Express with express-openapi-validator, from the same contract.
import express from 'express';
import OpenApiValidator from 'express-openapi-validator';
import { fileURLToPath } from 'node:url';
import { openStore } from './store.js';

const store = openStore();
const app = express();
app.use(express.json());
app.use(
  OpenApiValidator.middleware({
    apiSpec: fileURLToPath(new URL('../../../openapi.yaml', import.meta.url)),
    validateSecurity: {
      handlers: {
        bearerAuth: (request) => {
          request.subject = store.subjectOf(request.headers.authorization?.slice(7));
          return request.subject !== undefined;
        },
      },
    },
  }),
);
app.post('/plants', (request, response) => {
  const { name, tag } = request.body;
  if (!store.create(request.subject, request.body)) {
    response.status(400).json({ error: 40010, message: 'taken' });
  } else response.json({ name, tag });
});
app.get('/plants', (request, response) => {
  response.json(store.list(request.subject, request.query.limit));
});
app.delete('/plants/:id', (request, response) => {
  if (store.delete(request.subject, Number(request.params.id))) response.status(204).end();
  else response.status(404).json({ error: 40400, message: 'not found' });
});
// eslint-disable-next-line no-unused-vars -- Express recognizes an error handler by its four parameters
app.use((error, _request, response, _next) => {
  const status = error.status ?? 500;
  response.status(status).json({ error: status * 100, message: error.message });
});
// As with Fastify: Node's 5 s close connections whose next request waits while long lists of others are made.
app.listen(Number(process.env.PORT), process.env.HOST).keepAliveTimeout = 72_000;
