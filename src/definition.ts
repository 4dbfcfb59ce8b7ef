// What a service consists of. src/service.ts defines the one of this package.
import type { AnyHandlers } from './contract/handlers.js';
import type { Storage, StoreDefinition } from './storage/interface.js';
import type { ErrorEntry, ErrorFacts, RenderedError } from './errors.js';

/** A service: what differs between two services on this server. */
export interface Service extends StoreDefinition {
  /** The module that starts its server; worker processes run it, too. */
  readonly program: URL;
  /** The module of its command. */
  readonly command: URL;
  /** The OpenAPI document. */
  readonly contract: URL;
  /** Implements the operations of the contract. */
  readonly handlers: (storage: Storage) => AnyHandlers;
  /** The errors of its operations, besides those of src/errors.ts. `unknownOutcome` says what clients can do. */
  readonly errors: Readonly<Record<string, ErrorEntry>>;
  /**
   * Renders every error, also those of the server and of malformed HTTP, as its contract declares them: `ErrorOf` is the
   * type of what it returns. By default, errors have an integer `error` and a text `message`.
   */
  readonly renderError?: (error: ErrorFacts) => RenderedError;
  /** The scopes that its access tokens can have. */
  readonly scopes: readonly string[];
  /** What its access tokens begin with; other tokens are those of an identity provider. */
  readonly tokenPrefix: string;
  /** The realm of its challenges for a bearer token (RFC 9110 section 11.5). */
  readonly realm: string;
  /** What the names of its metrics begin with. */
  readonly metricPrefix: string;
  /** The default of DATABASE_URL. */
  readonly databaseUrl: string;
  /** The request that the server suggests in development mode. */
  readonly example: ExampleRequest;
}

/** A request to try first. */
export interface ExampleRequest {
  /** What it does. */
  readonly purpose: string;
  readonly method: 'POST' | 'PUT';
  readonly path: string;
  /** In JSON. */
  readonly body: string;
}
