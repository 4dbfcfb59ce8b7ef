// Defines what a service consists of.
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { CallerTokens } from './caller-tokens.js';
import type { AnyHandlers, Handlers } from '../contract/handlers.js';
import type { AnyVerifiers, Verifiers } from '../contract/verifiers.js';
import type {
  Collection,
  CollectionDefinition,
  IdKind,
  IdOf,
  StoreDefinition,
  Transaction,
} from '../storage/core/interface.js';
import type { ErrorEntry, ErrorFacts, RenderedError } from '../base/errors.js';

/** A service: everything that this server needs to know about it. */
export interface Service extends StoreDefinition {
  /** The module that starts its server; each of several threads runs it, too. */
  readonly program: URL;
  /** The module of its command. */
  readonly command: URL;
  /** The OpenAPI document. */
  readonly contract: URL;
  /**
   * Opens what the service needs, such as a database of its own, and returns what implements the contract. It is called
   * once in every thread that answers requests, and not by commands. If it throws, the service does not start.
   */
  readonly open: (context: ServiceContext) => AnyOpened | Promise<AnyOpened>;
  /**
   * Adds plugins, hooks, decorators and routes of Fastify to the app, before `open` is called and the operations are
   * added. It is called once in every thread that answers requests.
   */
  readonly build?: (app: FastifyInstance) => void | Promise<void>;
  /** The errors of its operations, besides those of `catalogue`. `unknownOutcome` says what clients can do. */
  readonly errors: Readonly<Record<string, ErrorEntry>>;
  /**
   * Renders every error, also those of the server and of malformed HTTP, as its contract declares them: `ErrorOf` is the
   * type of what it returns. By default, errors have an integer `error` and a text `message`.
   */
  readonly renderError?: (error: ErrorFacts) => RenderedError;
  /**
   * Whether a JSON body that the operation does not declare is ignored: some clients send `{}` with every POST. By default, the
   * response is 400.
   */
  readonly ignoreUndeclaredBodies?: boolean;
  /** The scopes that its access tokens can have. */
  readonly scopes: readonly string[];
  /** The prefix of its access tokens; tokens without it belong to an identity provider. */
  readonly tokenPrefix: string;
  /** The realm of its challenges for a bearer token (RFC 9110 section 11.5). */
  readonly realm: string;
  /** The prefix of the names of its metrics. */
  readonly metricPrefix: string;
  /**
   * The default of DATABASE_URL. A service without it has no store: no collections, no migrations, no access tokens of its
   * own, and no commands for them. What it keeps is in a database of its own.
   */
  readonly databaseUrl?: string;
  /** The request that the server suggests in development mode. */
  readonly example?: ExampleRequest;
}

/** The parts of the server that a service can use. */
export interface ServiceContext {
  /** Returns one of the collections of the definition, for `Documents`. */
  readonly collection: <Kind extends IdKind>(
    definition: CollectionDefinition<Kind>,
  ) => Collection<IdOf<Kind>>;
  /**
   * Runs a function that reads and writes documents of one subject, in any collections, and commits all that it has
   * written, or nothing: `Documents` has an example. It is committed only if everything that it has read is still
   * stored, and what was absent is still absent; otherwise the function runs again. So it must do nothing else that
   * counts, such as sending a message. Lists that it reads beside the transaction are not checked.
   *
   * It resolves with the function's result when everything is durable, and rejects with what the function threw; then only
   * its reads are checked. Transactions of one subject whose reads did not hold take turns in each thread. In the function,
   * do not call another transaction or `change` of the subject: it could have to wait for this one.
   * @throws StorageError `too-large` if it reads more than 1,000 documents, or 16 MiB of them in memory, where a character
   *   takes two bytes; nothing has changed, and the response is that for a body that is too large.
   * @throws StorageError `overloaded` if it takes more than 10 seconds, if other changes come first 100 times,
   *   or if all transactions of the thread take more than 64 MiB.
   */
  readonly transaction: <Result>(
    subject: string,
    work: (transaction: Transaction) => Result | Promise<Result>,
  ) => Promise<Result>;
  /** Issues, lists and revokes access tokens of the service. */
  readonly tokens: CallerTokens;
  /** The app of this thread, with what `build` has added. */
  readonly app: FastifyInstance;
  /** The log of this thread. */
  readonly log: FastifyBaseLogger;
  /** The number of this thread, from 1 to WORKERS. */
  readonly worker: number;
  /** Aborts when the service begins to shut down: streams that would last should then end. */
  readonly draining: AbortSignal;
  /**
   * Aborts when no request runs any more, before `close` is called; and when opening takes too long, or the process is to
   * end meanwhile.
   */
  readonly signal: AbortSignal;
}

/**
 * The result of opening a service.
 * @typeParam Operations - `operations` of the contract's generated types.
 * @typeParam Security - `operationSecurity` of the same types.
 * @typeParam Schemes - `securitySchemes` of the same types.
 */
export type Opened<
  Operations,
  Security extends { [Id in keyof Operations]: unknown },
  Schemes,
> = Lifecycle & {
  /** Implement the operations of the contract. */
  readonly handlers: Handlers<Operations, Security>;
  /** The security schemes whose callers handlers may ask for their credentials, by `caller.credential`. */
  readonly credentialSchemes?: readonly (keyof Schemes)[];
} & UnlessEmpty<Verifiers<Schemes>>;

/** The verifiers, which may be missing if none is required. */
type UnlessEmpty<All> = object extends All ? { readonly verifiers?: All } : { readonly verifiers: All };

/** The result of opening a service, whatever its contract. */
export interface AnyOpened extends Lifecycle {
  /** By operationId. */
  readonly handlers: AnyHandlers;
  /** By the name of the security scheme. */
  readonly verifiers?: AnyVerifiers;
  readonly credentialSchemes?: readonly string[];
}

/** The functions around the handlers, for `/readyz`, and at the end. */
interface Lifecycle {
  /**
   * Is called around every handler, in all operations: to map the errors of a database to ApiErrors, to measure, or to wrap
   * a transaction of a database. It returns what `next` resolves with; what it throws is treated like what handlers throw.
   * @example
   * around: (operationId, next) => next().catch((error) => { throw taken(error) ? new ApiError(errors.taken) : error; })
   */
  readonly around?: (operationId: string, next: () => Promise<unknown>) => Promise<unknown>;
  /**
   * Resolves if the service can serve, and rejects with the reason if it cannot. It is part of `/readyz`, for
   * which the first thread calls it. After 1.5 seconds it counts as failed, and the signal aborts.
   */
  readonly check?: (signal: AbortSignal) => Promise<void> | void;
  /** Closes what `open` has opened, after the last request and within SHUTDOWN_SECONDS; the storage closes later. */
  readonly close?: () => Promise<void> | void;
}

/** A request to try first. */
export interface ExampleRequest {
  /** Its effect, such as `Add a book`. */
  readonly purpose: string;
  /** Its method; the request has a body. */
  readonly method: 'POST' | 'PUT';
  /** Its path, as in `/books`. */
  readonly path: string;
  /** In JSON. */
  readonly body: string;
}
