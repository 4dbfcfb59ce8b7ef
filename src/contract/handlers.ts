// The types of the handlers, derived from a contract's generated types: what does not fit does not compile.
import type { operations, operationSecurity } from './types.gen.js';

/** Who makes a request, as far as a handler needs to know. */
export interface Caller {
  readonly subject: string;
}

/** Part of a JSON array, already rendered. */
export interface JsonPage {
  /** The items as JSON texts, separated by commas, without brackets. */
  readonly json: string;
  /** Whether another page may follow. */
  readonly more: boolean;
}

/** The JSON array of an answer, read page by page as it is sent. */
export interface JsonArray<Item> {
  /** Reads the next page; not called again after one without `more`, nor at all for HEAD. */
  nextPage(): Promise<JsonPage>;
  /** Only a type: what the pages hold as text. */
  readonly item?: Item;
}

type JsonContent<T> = T extends { content: { 'application/json': infer Json } } ? Json : undefined;

type Parameters<Operation, Place extends 'path' | 'query'> = Operation extends {
  parameters: { [_ in Place]?: infer Given };
}
  ? NonNullable<Given>
  : never;

/**
 * A request that has passed authentication and validation; one of a public operation has no caller. Schemes are the
 * names of the security schemes of which the caller satisfied one.
 */
export type OperationRequest<Operation, Schemes> = ([Schemes] extends [never]
  ? object
  : { readonly caller: Caller }) & {
  readonly params: Parameters<Operation, 'path'>;
  readonly query: Parameters<Operation, 'query'>;
  readonly body: Operation extends { requestBody: infer Body } ? JsonContent<Body> : undefined;
};

type SuccessStatus = 200 | 201 | 202 | 204;
type Success<Operation> = Operation extends { responses: infer Responses }
  ? Responses[Extract<keyof Responses, SuccessStatus>]
  : never;

/** The body of a success: an array is given page by page, however long it is. */
type SuccessBody<Response> =
  JsonContent<Response> extends (infer Item)[] ? JsonArray<Item> : JsonContent<Response>;

/** Headers that the server sets itself. */
type ServerHeader<Response> =
  'X-Request-Id' | (JsonContent<Response> extends unknown[] ? 'Cache-Control' | 'ETag' : never);

/** The headers that the contract declares and the handler gives. */
type HandlerHeaders<Response> = Response extends { headers: infer Headers }
  ? {
      [
        Name in keyof Headers as string extends Name
          ? never
          : number extends Name
            ? never
            : Exclude<Name, ServerHeader<Response>>
      ]: Headers[Name];
    }
  : object;

/** What a handler returns: the body, or the body and its headers where the contract declares some. */
export type OperationResult<Operation> = keyof HandlerHeaders<Success<Operation>> extends never
  ? SuccessBody<Success<Operation>>
  : {
      readonly body: SuccessBody<Success<Operation>>;
      readonly headers: HandlerHeaders<Success<Operation>>;
    };

/**
 * One function for each operationId of a contract; by default of this package's own. Errors are thrown as ApiError.
 * @typeParam Operations - `operations` of the contract's generated types.
 * @typeParam Security - Their `operationSecurity`.
 */
export type Handlers<
  Operations = operations,
  Security extends { [Id in keyof Operations]: unknown } = operationSecurity & {
    [Id in keyof Operations]: unknown;
  },
> = {
  [Id in keyof Operations]: (
    request: OperationRequest<Operations[Id], Security[Id]>,
  ) => Promise<OperationResult<Operations[Id]>>;
};

/** The handlers of any contract, by operationId. */
export type AnyHandlers = Readonly<Record<string, (request: never) => Promise<unknown>>>;
