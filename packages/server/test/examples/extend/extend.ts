// A service with plugins and routes of Fastify beside its contract. docs/extend.md shows its parts.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { EventEmitter, on } from 'node:events';
import fastifyMultipart from '@fastify/multipart';
import fastifyStatic from '@fastify/static';
import fastifyWebsocket from '@fastify/websocket';
import Fastify, { type FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { ApiError, type AnyOpened, type Service, type ServiceContext } from 'contract-server';
import { contractServer } from 'contract-server/plugin';

declare module 'fastify' {
  interface FastifyInstance {
    newsroom: EventEmitter;
    publish: (news: object) => Promise<void>;
  }
}

/** A plugin of the service's own. Without fastify-plugin, only its own routes would have what it adds. */
export const newsroom = fastifyPlugin(
  async (app) => {
    const newsroom = new EventEmitter().setMaxListeners(0);
    app.decorate('newsroom', newsroom);
    app.decorate('publish', async (news) => void newsroom.emit('news', news));
    app.addHook('onRequest', async (request, reply) => {
      reply.header('server-timing', `start;desc="${request.id}"`);
    });
  },
  { name: 'newsroom' },
);

export function open({ app, draining }: ServiceContext): AnyOpened {
  async function* events(departure: AbortSignal) {
    const signal = AbortSignal.any([departure, draining]);
    try {
      const all = on(app.newsroom, 'news', { signal, close: ['lost'] });
      yield ': welcome\n\n';
      for await (const [news] of all) yield `data: ${JSON.stringify(news)}\n\n`;
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
  return {
    handlers: {
      async watchNews({ signal }: { signal: AbortSignal }) {
        return events(signal);
      },
      async addNews({ body }: { body: { text: string } }) {
        await app.publish(body);
      },
    },
  };
}

/** Pages and pictures of a folder. */
export function files(root: string) {
  return async (app: FastifyInstance) => {
    await app.register(fastifyStatic, { root, prefix: '/files/' });
  };
}

/** A WebSocket for callers of the contract. */
export async function chat(app: FastifyInstance) {
  await app.register(fastifyWebsocket);
  app.get(
    '/chat',
    { websocket: true, onRequest: app.authenticate([{ bearerAuth: [] }], 'news:read') },
    (socket, request) => {
      socket.on('message', (text: Buffer) => {
        socket.send(`${request.caller!.subject}: ${text.toString()}`);
      });
    },
  );
}

/** Uploads that are read as they arrive, in a scope of their own. */
export async function uploads(app: FastifyInstance) {
  await app.register(fastifyMultipart, { limits: { fileSize: 500_000 } });
  const onRequest = app.authenticate([{ bearerAuth: [] }], 'news:write');
  app.post('/uploads', { onRequest }, async (request) => {
    let bytes = 0;
    const file = await request.file();
    for await (const chunk of file!.file) bytes += (chunk as Buffer).length;
    return { name: file!.filename, bytes };
  });
}

/** A webhook, whose signature is that of the bytes. */
export function webhook(secret: string) {
  return async (app: FastifyInstance) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
      done(null, body);
    });
    app.post('/webhooks/payments', async (request, reply) => {
      const expected = createHmac('sha256', secret)
        .update(request.body as Buffer)
        .digest();
      const signature = Buffer.from(String(request.headers['x-signature']), 'hex');
      if (signature.length !== expected.length || !timingSafeEqual(signature, expected))
        throw new ApiError({ code: 40150, message: 'The signature is not valid.' });
      return reply.code(204).send();
    });
  };
}

/** What the definition of the service has besides `open`. */
export const definition = (root: string): Pick<Service, 'build'> => ({
  build: async (app) => {
    await app.register(newsroom);
    await app.register(files(root));
  },
});

/** An app of the author's own. */
export async function createApp(service: Service, root: string) {
  const app = Fastify(contractServer.options({ logger: { level: 'warn' } }));
  await app.register(contractServer, { service });
  await app.register(fastifyStatic, { root, prefix: '/files/' });
  return app;
}
