// contract-server as a Fastify plugin, for an app that its author makes.
import fastifyPlugin from 'fastify-plugin';
import { defaultLimits } from './base/limits.js';
import { frontOf } from './http/app-base.js';
import { appOptions, serveContract, type AppServerOptions, type PluginOptions } from './process/app.js';
import { noStore } from './storage/no-store.js';
import { openStorage } from './storage/open.js';

export type { AppServerOptions };

/** The options of contractServer. */
export interface ContractServerOptions extends Pick<
  PluginOptions,
  'service' | 'verifyTimeout' | 'identityProvider' | 'corsOrigins'
> {
  /** The URL of the store; that of the service by default. */
  readonly databaseUrl?: string;
}

/**
 * Serves the contract of a service on an app that its author makes. Register it before all other plugins and routes, so
 * that they pass its steps too. Closing the app closes the service and its store.
 * @throws Error as the service's own start would: OpenError, ContractError, StorageError.
 * @example
 * const app = Fastify(contractServer.options({ logger: true }));
 * await app.register(contractServer, { service });
 * await app.register(fastifyStatic, { root, prefix: '/files/' });
 * await app.listen({ port: 3000 });
 */
export const contractServer = Object.assign(
  fastifyPlugin<ContractServerOptions>(
    async (app, { databaseUrl, ...options }) => {
      const { service } = options;
      const storage = await openStorage(service, databaseUrl ?? service.databaseUrl ?? noStore);
      app.addHook('onClose', () => storage.close());
      const { maxEventLoopDelay } = { ...defaultLimits, ...frontOf(app)?.limits };
      await app.register(serveContract, { ...options, storage, maxEventLoopDelay });
    },
    { name: 'contract-server/app', fastify: '5.x' },
  ),
  {
    /** The options with which the app is made: those of Fastify, and `limits` and `tls`. */
    options: (options: AppServerOptions = {}) => appOptions(options),
  },
);

export default contractServer;
