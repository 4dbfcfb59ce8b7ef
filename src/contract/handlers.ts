// The type of the handlers, derived from the contract: what does not fit the contract does not compile.
import type { operations } from './types.gen.js';
import type { PlantPage } from '../domain/plants.js';
import type { Caller } from '../domain/tokens.js';

/** The JSON array of an answer, page by page. T is the type of its items, which the pages hold as text. */
export class JsonArray<T> {
  declare protected readonly item: T;
  /** Reads the next page; not to be called again after a page whose `more` is false. */
  readonly nextPage: () => Promise<PlantPage>;

  constructor(nextPage: () => Promise<PlantPage>) {
    this.nextPage = nextPage;
  }
}

type JsonContent<T> = T extends { content: { 'application/json': infer Json } } ? Json : undefined;

type Parameters<Id extends keyof operations, Place extends 'path' | 'query'> = NonNullable<
  operations[Id]['parameters'][Place]
>;

/** A request that has passed authentication and validation. */
export interface OperationRequest<Id extends keyof operations> {
  readonly caller: Caller;
  readonly params: Parameters<Id, 'path'>;
  readonly query: Parameters<Id, 'query'>;
  readonly body: operations[Id] extends { requestBody: infer Body } ? JsonContent<Body> : undefined;
}

type SuccessStatus = 200 | 201 | 202 | 204;
type SuccessJson<Responses> = JsonContent<Responses[Extract<keyof Responses, SuccessStatus>]>;

/** What a handler returns: the success answer's body. An array is given page by page, however long it is. */
export type OperationResult<Id extends keyof operations> =
  SuccessJson<operations[Id]['responses']> extends (infer Item)[]
    ? JsonArray<Item>
    : SuccessJson<operations[Id]['responses']>;

/**
 * One function for each operationId of the contract. Errors are thrown as ApiError.
 */
export type Handlers = {
  [Id in keyof operations]: (request: OperationRequest<Id>) => Promise<OperationResult<Id>>;
};
