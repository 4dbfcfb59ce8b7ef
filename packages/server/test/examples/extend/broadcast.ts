// News of all threads and instances of a service, by LISTEN and NOTIFY of PostgreSQL.
import { EventEmitter } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { StorageError } from 'contract-server';
import fastifyPlugin from 'fastify-plugin';
import { Client } from 'pg';

/** @param connectionString - Of PostgreSQL itself, or of a pooler in session mode. */
export const broadcast = (connectionString: string) =>
  fastifyPlugin(
    async (app) => {
      const newsroom = new EventEmitter().setMaxListeners(0);
      const closing = new AbortController();
      let client: Client | undefined;
      let reconnecting: Promise<void> | undefined;

      const connect = async () => {
        const next = new Client({ connectionString, connectionTimeoutMillis: 5_000, keepAlive: true });
        next.on('error', (error) => {
          app.log.warn({ err: error }, 'the connection for news failed');
        });
        next.on('notification', ({ payload = '' }) => newsroom.emit('news', JSON.parse(payload)));
        await next.connect();
        await next.query('LISTEN news');
        next.once('end', () => {
          client = undefined;
          // Streams end, since they miss news from now on: their clients come again, and read what there is.
          newsroom.emit('lost');
          if (!closing.signal.aborted) reconnecting = reconnect();
        });
        client = next;
      };
      const reconnect = async () => {
        while (client === undefined && !closing.signal.aborted)
          await connect().catch(async (error: unknown) => {
            app.log.warn({ err: error }, 'there are no news until the database is back');
            await wait(1_000, undefined, { signal: closing.signal }).catch(() => undefined);
          });
      };

      await connect();
      app.decorate('newsroom', newsroom);
      app.decorate('publish', async (news) => {
        if (client === undefined) throw new StorageError('unavailable', 'there is no connection for news');
        await client.query("SELECT pg_notify('news', $1)", [JSON.stringify(news)]);
      });
      app.addHook('onClose', async () => {
        closing.abort();
        await reconnecting;
        await client?.end();
      });
    },
    { name: 'newsroom' },
  );
