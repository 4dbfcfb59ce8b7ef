// The service under test: the real app on a store of its own, and the one way in which tests talk to it.
import { EventEmitter, once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { pino, type LoggerOptions } from 'pino';
import type { Test } from 'tap';
import { checkResponse, type HttpResponse } from './contract-check.js';
import { engines, sharedStorage, type Engine } from './engines.js';
import { RawConnection } from './raw-connection.js';
import {
  issueToken,
  repositoryOf,
  scopes,
  withMethods,
  type PlantRepository,
  type Storage,
} from './store.js';
import { tls } from './transport.js';
import { repeatUntil, withResolvers } from './wait.js';
import type { AnyOpened } from '../../dist/index.js';
import { buildApp, type AppOptions } from '../../dist/process/app.js';
import type { AnyHandlers } from '../../dist/contract/handlers.js';
import type { AnyVerifiers } from '../../dist/contract/verifiers.js';
import type { TokenRepository } from '../../dist/storage/core/interface.js';
import { request, type RequestOptions } from '../../dist/testing/requests.js';
import { responseCheck } from '../../dist/testing/response-check.js';
import { plantOperations } from '../../../../dist/plants/operations.js';
import { service as definition } from '../../../../dist/service.js';

export { buildApp };
export type { RequestOptions };

/** A response whose body has been read: `json` is lossy beyond 2^53, `text` never. */
export interface JsonResponse extends HttpResponse {
  readonly json: unknown;
}

/** The service of a test. */
export interface Service {
  readonly app: FastifyInstance;
  readonly storage: Storage;
  /** A subject that no other test has. */
  readonly subject: string;
  /** A token for it with both scopes. */
  readonly token: string;
  /** Makes a token. */
  issue(subject: string, options?: { scopes?: readonly string[]; expiresAt?: number }): Promise<string>;
  /** Stores as many plants of the subject, with ids from 0 on. */
  fill(count: number, nameOf: (i: number) => string): Promise<void>;
  /** Sends a request and checks the response against the contract. */
  call(method: string, url: string, options?: RequestOptions): Promise<JsonResponse>;
}

/** What a test may set; `wrap` stands between the app and its storage. */
export type ServiceOptions = Omit<Partial<AppOptions>, 'storage'> & {
  /** The handlers of the contract; those of plants by default. */
  handlers?: AnyHandlers;
  /** The verifiers of the service, and what else it opens with. */
  verifiers?: AnyVerifiers;
  opened?: Pick<AnyOpened, 'around' | 'credentialSchemes'>;
  storage?: Storage;
  wrap?: (storage: Storage) => Storage;
};

/** Limits, in ms, that no slow machine meets. */
const patience = { requestTimeout: 600_000 };

let subjects = 0;

/** Starts the service for a test, and ends it with the test; if that fails, prints the errors in the log. */
export async function startService(t: Test, engine: Engine, options: ServiceOptions = {}): Promise<Service> {
  const storage = options.storage ?? (await sharedStorage(engine));
  const subject = `subject ${++subjects}`;
  const { wrap = (same: Storage) => same, handlers, verifiers, opened: others, ...appOptions } = options;
  const wrapped = wrap(storage);
  const opened = {
    handlers: handlers ?? plantOperations(repositoryOf(wrapped)),
    ...(verifiers && { verifiers }),
    ...others,
  };
  const failures = captureLog('error');
  const app = await buildApp({
    logger: failures.logger,
    ...appOptions,
    limits: { ...patience, ...appOptions.limits },
    service: { ...(options.service ?? definition), open: () => opened },
    storage: wrapped,
  });
  const { contract, service: tested = definition } = options;
  const check = contract === undefined ? checkResponse : responseCheck(contract, tested);
  t.teardown(async () => {
    await app.close();
    if (!t.passing()) for (const line of failures.lines) console.error(`the log of "${t.name}":`, line);
  });
  const issue: Service['issue'] = async (subject, { scopes: given = scopes, expiresAt } = {}) => {
    const { secret } = await issueToken(storage.tokens, {
      subject,
      scopes: given,
      now: Date.now(),
      expiresAt,
    });
    return secret;
  };
  const token = await issue(subject);
  return {
    app,
    storage,
    subject,
    token,
    issue,
    fill: async (count, nameOf) => {
      const create = (i: number) => storage.plants.create(subject, BigInt(i), { name: nameOf(i) });
      await Promise.all(Array.from({ length: count }, (_, i) => create(i)));
    },
    call: async (method, url, options = {}) => {
      const response = await request(app, check, method, url, options);
      return { ...response, json: response.text === '' ? undefined : (JSON.parse(response.text) as unknown) };
    },
  };
}

/** A service that listens on a port of loopback. */
export interface ListeningService extends Service {
  readonly port: number;
  /** Opens a connection that is gone with the test. */
  open(): Promise<RawConnection>;
  /** The same, with the server's side of it. */
  openBoth(): Promise<{ connection: RawConnection; served: Socket }>;
  /** The header lines of an authorized request. */
  readonly authorized: string;
}

/** Starts the service for a test, on SQLite, and has it listen, over TLS when tests do; it ends with the test. */
export async function startListening(t: Test, options: ServiceOptions = {}): Promise<ListeningService> {
  const service = await startService(t, engines[0]!, { tls, ...options });
  await service.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = service.app.server.address() as AddressInfo;
  const open = async () => {
    const connection = await RawConnection.open(port);
    t.teardown(() => connection.socket.destroy());
    return connection;
  };
  const openBoth = async () => {
    const accepted = once(service.app.front, 'connection') as Promise<[Socket]>;
    const connection = await open();
    const [served] = await accepted;
    return { connection, served };
  };
  const authorized = `Host: x\r\nAuthorization: Bearer ${service.token}\r\n`;
  return { ...service, port, open, openBoth, authorized };
}

/** Injects faults into a storage: methods that fail, hang, return something else, or count their calls. */
export const injectFaults =
  (
    change: (storage: Storage) => Pick<Partial<Storage>, 'check'> & {
      plants?: Partial<PlantRepository>;
      tokens?: Partial<TokenRepository>;
    },
  ): ((storage: Storage) => Storage) =>
  (storage) => {
    const { plants, tokens, ...own } = change(storage);
    return withMethods<Storage>(storage, {
      ...own,
      plants: withMethods(storage.plants, plants),
      tokens: withMethods(storage.tokens, tokens),
    });
  };

/** A store whose creates wait until they are released. The promises resolve when the first one starts and ends. */
export function holdCreates() {
  const [gate, started, finished] = [withResolvers(), withResolvers(), withResolvers()];
  const wrap = injectFaults(({ plants }) => ({
    plants: {
      create: async (...all) => {
        started.resolve();
        await gate.promise;
        return plants.create(...all).finally(finished.resolve);
      },
    },
  }));
  return { wrap, release: gate.resolve, started: started.promise, finished: finished.promise };
}

/** A logger, the lines that it has written, and what resolves when something holds of them. @param options - Of pino. */
export function captureLog(level = 'info', options: LoggerOptions = {}) {
  const lines: Record<string, unknown>[] = [];
  const written = new EventEmitter();
  const write = (line: string) => {
    lines.push(JSON.parse(line) as Record<string, unknown>);
    written.emit('line');
  };
  const logged = (holds: () => boolean) => repeatUntil(holds, () => once(written, 'line'));
  return { lines, logged, logger: pino({ level, ...options }, { write }) };
}
