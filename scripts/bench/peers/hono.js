// A peer: Hono with zod-openapi, on its Node.js server.
import { serve } from '@hono/node-server';
import { createRoute, OpenAPIHono, z } from '@hono/zod-openapi';
import { openStore } from './store.js';

const store = openStore();
const Plant = z.object({ name: z.string(), tag: z.string().optional() });
const NewPlant = Plant.extend({ id: z.number().int() }).strict();
const json = (schema, description) => ({ content: { 'application/json': { schema } }, description });
const ErrorBody = z.object({ error: z.number().int(), message: z.string() });

const app = new OpenAPIHono();
app.use('/plants/*', async (context, next) => {
  const subject = store.subjectOf(context.req.header('authorization')?.slice(7));
  if (subject === undefined) return context.json({ error: 40100, message: 'no token' }, 401);
  context.set('subject', subject);
  await next();
});
app.openapi(
  createRoute({
    method: 'post',
    path: '/plants',
    request: { body: { ...json(NewPlant, ''), required: true } },
    responses: { 200: json(Plant, 'stored'), 400: json(ErrorBody, 'not stored') },
  }),
  (context) => {
    const { id, name, tag } = context.req.valid('json');
    if (!store.create(context.get('subject'), { id, name, tag })) {
      return context.json({ error: 40010, message: 'taken' }, 400);
    }
    return context.json({ name, tag }, 200);
  },
);
app.openapi(
  createRoute({
    method: 'get',
    path: '/plants',
    request: { query: z.object({ limit: z.coerce.number().int().min(1).optional() }) },
    responses: { 200: json(z.array(Plant), 'the plants') },
  }),
  (context) => context.json(store.list(context.get('subject'), context.req.valid('query').limit), 200),
);
app.openapi(
  createRoute({
    method: 'delete',
    path: '/plants/{id}',
    request: { params: z.object({ id: z.coerce.number().int() }) },
    responses: { 204: { description: 'deleted' }, 404: json(ErrorBody, 'unknown') },
  }),
  (context) => {
    if (store.delete(context.get('subject'), context.req.valid('param').id)) return context.body(null, 204);
    return context.json({ error: 40400, message: 'not found' }, 404);
  },
);
const server = serve({ fetch: app.fetch, hostname: process.env.HOST, port: Number(process.env.PORT) });
// As with Fastify: Node's 5 s close connections whose next request waits while long lists of others are made.
server.keepAliveTimeout = 72_000;
