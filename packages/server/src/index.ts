// The public face of the server: everything that a service imports, besides its entry points (start.ts).
export { parseExactJson } from './contract/exact-json.js';
export type { Caller, ErrorOf, Handlers, JsonArray, JsonPage } from './contract/handlers.js';
export { exactJson, JsonText } from './contract/json-text.js';
export { TypedBody, type RawBody } from './contract/raw-body.js';
export type { BasicCredential, Verified, Verifiers, Verify } from './contract/verifiers.js';
export type { AnyOpened, ExampleRequest, Opened, Service, ServiceContext } from './definition.js';
export { Documents, listAll, type Stored } from './documents.js';
export { ApiError, catalogue, type ErrorEntry, type ErrorFacts, type RenderedError } from './errors.js';
export type { Collection, CollectionDefinition, OutcomeOf } from './storage/interface.js';
