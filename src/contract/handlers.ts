// Derives the handlers' types from a contract's generated types, so that a wrong handler does not compile.
import type { JsonText } from './json-text.js';
import type { operations, operationSecurity } from './types.gen.js';

/** The caller of a request, as a handler sees it. */
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

/** The JSON array of a response, read page by page as it is sent. */
export interface JsonArray<Item> {
  /** Reads the next page. It is not called after a page without `more`, and never for HEAD. */
  nextPage(): Promise<JsonPage>;
  /** The type of the items; never set. */
  readonly item?: Item;
}

type JsonContent<T> = T extends { content: { 'application/json': infer Json } } ? Json : undefined;

type Parameters<Operation, Place extends 'path' | 'query'> = Operation extends {
  parameters: { [_ in Place]?: infer Given };
}
  ? NonNullable<Given>
  : never;

/**
 * A request that has passed authentication and validation; for a public operation, it has no caller.
 * @typeParam Schemes - The names of the operation's security schemes; never for a public operation.
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

/** The body of a success response, or its text; an array is always returned page by page. */
type SuccessBody<Response> =
  JsonContent<Response> extends (infer Item)[]
    ? JsonArray<Item>
    : JsonContent<Response> extends undefined
      ? undefined
      : JsonContent<Response> | JsonText<JsonContent<Response>>;

/** Headers that the server sets itself. */
type ServerHeader<Response> =
  'X-Request-Id' | (JsonContent<Response> extends unknown[] ? 'Cache-Control' | 'ETag' : never);

/** The declared headers that the handler returns. */
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

/** What a handler returns: the body, or the body and headers if the contract declares headers. */
export type OperationResult<Operation> = keyof HandlerHeaders<Success<Operation>> extends never
  ? SuccessBody<Success<Operation>>
  : {
      readonly body: SuccessBody<Success<Operation>>;
      readonly headers: HandlerHeaders<Success<Operation>>;
    };

/**
 * One function per operationId of a contract, by default this package's. Handlers throw errors as ApiError.
 * @typeParam Operations - `operations` of the contract's generated types.
 * @typeParam Security - `operationSecurity` of the same types.
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
