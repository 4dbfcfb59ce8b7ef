// The public interface of the server: everything that a service imports, besides its entry points (start.ts) and its
// tests (testing.ts). docs/reference.md has all of it.

// The definition of a service, and what it opens.
export type { AnyOpened, ExampleRequest, Opened, Service, ServiceContext } from './service/definition.js';

// Access tokens that handlers issue and revoke.
export type { CallerTokens, IssuedToken, IssueOptions, ListedToken } from './service/caller-tokens.js';

// Handlers: their types, and what they return besides plain values.
export type { Caller, ErrorOf, Handlers, JsonArray, JsonPage } from './contract/handlers.js';
export { JsonText } from './contract/document/json-text.js';
export { TypedBody, UploadedFile, type RawBody } from './contract/raw-body.js';

// Errors that handlers throw, those that every server has, and how a service renders them.
export {
  ApiError,
  catalogue,
  notImplemented,
  type ApiErrorOptions,
  type ErrorEntry,
  type ErrorFacts,
  type RequestFault,
  type ErrorKind,
  type RenderedError,
} from './base/errors.js';

// Verifiers of the contract's security schemes.
export type { BasicCredential, SchemeKind, Verified, Verifiers, Verify } from './contract/verifiers.js';

// Passwords of callers who log in.
export { FairQueue, hashPassword, isPassword } from './service/passwords.js';

// Authentication for routes outside of the contract; the module also declares `app.authenticate` and `request.caller`.
export type { SecurityRequirements } from './http/security/authenticate.js';

// The documents that a service stores, and the owners of those that all callers share.
export {
  Documents,
  shared,
  type DocumentArray,
  type DocumentEntry,
  type Stored,
} from './service/documents.js';
export {
  StorageError,
  type Collection,
  type CollectionDefinition,
  type IdRange,
  type ListRange,
  type Outcomes,
  type StorageFailure,
  type Transaction,
} from './storage/core/interface.js';
export { prefixRange } from './storage/core/ids.js';
export { networkOf } from './http/headers/client-address.js';
export { idempotencyErrors, IdempotencyKeys, type IdempotencyOptions } from './service/idempotency.js';

// JSON with integers of 64 bits.
export { parseExactJson } from './contract/document/exact-json.js';
export { exactJson } from './contract/document/json-text.js';
