// Derives the handlers' types from a contract's generated types, so that a wrong handler does not compile.
import type { ApiError } from '../base/errors.js';
import type { JsonText } from './document/json-text.js';
import type { RawBody, TypedBody } from './raw-body.js';

/** The caller of a request, as a handler sees it. */
export interface Caller {
  /**
   * Identifies the caller: the subject of the access token; for callers of an identity provider or of a verifier, with
   * the name of the issuer or scheme before it. Documents belong to it.
   */
  readonly subject: string;
  /** The name of the security scheme that identifies the caller. */
  readonly scheme: string;
  /**
   * The name by which its verifier knows the caller: the subject that a verifier of the service has returned, the `sub`
   * of an identity provider, or the subject of an access token. Callers of other schemes may have the same.
   */
  readonly id: string;
  /** The scopes of the service that the credentials grant. */
  readonly scopes: readonly string[];
  /** The id of the access token, if that is one of the service itself: to revoke it. It is not secret. */
  readonly tokenId?: string | undefined;
  /**
   * Returns the credential that the caller has shown, such as a token, if `credentialSchemes` has its scheme; that of
   * `basic` is in Base64. It is a function so that a log of the caller does not have it.
   */
  readonly credential?: (() => string) | undefined;
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

/** Selects the media types that are JSON, and the range of all types. */
type JsonType<Type> = Extract<Type, '*/*' | `application/${'' | `${string}+`}json${'' | `;${string}`}`>;

/** The JSON type that a handler need not name: application/json, the range of all types, or the only one. */
type DefaultType<Type> = 'application/json' extends Type
  ? 'application/json'
  : '*/*' extends Type
    ? '*/*'
    : true extends IsUnion<JsonType<Type>>
      ? never
      : JsonType<Type>;

/** The body of a request, of any of its media types. */
type RequestContent<T> = T extends { content: infer Content } ? Content[keyof Content] : undefined;

type Parameters<Operation, Location extends 'path' | 'query' | 'header' | 'cookie'> = Operation extends {
  parameters: { [_ in Location]?: infer Given };
}
  ? NonNullable<Given>
  : never;

type ParametersUnlessNone<Name extends string, Given> = [Given] extends [never]
  ? object
  : { readonly [_ in Name]: Given };

type RequestBody<Operation> = Operation extends { requestBody: infer Body }
  ? RequestContent<Body>
  : Operation extends { requestBody?: infer Body }
    ? RequestContent<NonNullable<Body>> | undefined
    : undefined;

/** The caller, unless the operation is public; undefined credentials are an alternative of an optional scheme. */
type CallerOf<Schemes> = [Schemes] extends [never]
  ? object
  : { readonly caller: null extends Schemes ? Caller | null : Caller };

/**
 * A request that has passed authentication and validation; for a public operation, it has no caller.
 * @typeParam Schemes - The names of the operation's security schemes, and null if they are optional; never for a public
 *   operation.
 */
export type OperationRequest<Operation, Schemes> = CallerOf<Schemes> &
  ParametersUnlessNone<'headers', Parameters<Operation, 'header'>> &
  ParametersUnlessNone<'cookies', Parameters<Operation, 'cookie'>> & {
    /**
     * The IP address of the client, without a port: that of the connection, or the one that a proxy of TRUST_PROXY has
     * named. To count clients, use networkOf.
     */
    readonly address: string;
    /**
     * Aborts when the client leaves before it has the whole response, for instance to end a generator that waits. A copy
     * of the request by `...` does not have it.
     */
    readonly signal: AbortSignal;
    readonly params: Parameters<Operation, 'path'>;
    readonly query: Parameters<Operation, 'query'>;
    readonly body: RequestBody<Operation>;
  };

type Responses<Operation> = Operation extends { responses: infer All } ? All : never;

/** The keys of the responses that a handler may return. */
type ResultKey<All> = [SuccessKey<keyof All>] extends [never] ? 'default' : SuccessKey<keyof All>;
/** The keys that begin with one of these texts. */
type StartingWith<Start extends string, Key> = Key extends string | number
  ? `${Key}` extends `${Start}${string}`
    ? Key
    : never
  : never;
type SuccessKey<Key> = StartingWith<'2' | '3', Key>;

/** The body of a response; if there are several types, a TypedBody names one, unless it is the JSON that needs no name. */
type ResultBody<Response> = Response extends { content: infer Content }
  ? [JsonType<keyof Content> | RangeType<keyof Content>, IsUnion<keyof Content>] extends [never, false]
    ? RawBody
    : JsonBody<Content[DefaultType<keyof Content> & keyof Content]> | NamedBodies<Content>
  : undefined;

/** The bodies whose type a handler names. */
type NamedBodies<Content> = {
  [Type in keyof Content]: Type extends '*/*'
    ? TypedBody<`${string}/${string}`, RawBody | JsonBody<Content[Type]>>
    : Type extends `${infer Main}/*`
      ? TypedBody<`${Main}/${string}`>
      : Type extends JsonType<Type>
        ? TypedBody<Type & string, JsonBody<Content[Type]>>
        : TypedBody<Type & string>;
}[true extends IsUnion<keyof Content> ? keyof Content : RangeType<keyof Content>];
/** Selects the media types that are ranges. */
type RangeType<Type> = Extract<Type, `${string}/*`>;

/** A JSON body; an array, or one in an object, may be returned page by page. */
type JsonBody<Json> = Json extends (infer Item)[]
  ? JsonArray<Item> | Json
  : Json extends undefined
    ? undefined
    : Json | JsonText<Json> | (Json extends object ? ArrayInObject<Json>[keyof Json] : never);

/**
 * An object one of whose properties is an array that is read page by page. Functions return the properties that are known
 * only then.
 */
type ArrayInObject<Json extends object> = {
  [Name in keyof Json]-?: NonNullable<Json[Name]> extends readonly (infer Item)[]
    ? { readonly [_ in Name]: JsonArray<Item> } & {
        readonly [Other in keyof Omit<Json, Name>]: Omit<Json, Name>[Other] | (() => Omit<Json, Name>[Other]);
      }
    : never;
};

/** The declared headers that the handler returns. */
type HandlerHeaders<Response> = Response extends { headers: infer Headers } ? Headers : object;

type WithHeaders<Response> = keyof HandlerHeaders<Response> extends never
  ? { readonly headers?: never }
  : { readonly headers: HandlerHeaders<Response> };

type WithBody<Response> =
  ResultBody<Response> extends undefined
    ? { readonly body?: undefined }
    : { readonly body: ResultBody<Response> };

/** A result with its status, for operations that have several. */
type Choice<All> = {
  [Key in ResultKey<All> & keyof All]: { readonly status: Key extends number ? Key : number } & WithBody<
    All[Key]
  > &
    WithHeaders<All[Key]>;
}[ResultKey<All> & keyof All];

type OnlyResult<Response> = keyof HandlerHeaders<Response> extends never
  ? ResultBody<Response>
  : { readonly body: ResultBody<Response>; readonly headers: HandlerHeaders<Response> };

type IsUnion<T, All = T> = T extends unknown ? ([All] extends [T] ? false : true) : never;

/**
 * The result of a handler: the body, or the body and headers if the contract declares headers; also the status, if it
 * declares several or a range.
 */
export type OperationResult<Operation> =
  Responses<Operation> extends infer All
    ? true extends IsUnion<ResultKey<All>> | (ResultKey<All> extends '2XX' | '3XX' ? true : false)
      ? Choice<All>
      : OnlyResult<All[ResultKey<All> & keyof All]>
    : never;

/** The statuses of errors that a handler may return: those that are declared, and those of the server itself. */
type ErrorStatus<Key> = [Extract<Key, 'default' | '4XX' | '5XX'>] extends [never]
  ? StartingWith<'4' | '5', Key> | (422 extends Key ? never : 400) | 429 | 500 | 501 | 503
  : number;

/** An error of an operation. Where it declares ranges, the compiler does not look at the status. */
type OperationError<Operation> = ApiError & {
  readonly statusCode: ErrorStatus<keyof Responses<Operation>>;
};

/**
 * One function per operationId of a contract. It receives a request that is authenticated and validated, and returns the
 * body of the response, with the status and headers if the contract leaves a choice. Handlers throw errors as ApiError, or
 * return them: then the compiler checks that the operation declares their status.
 * @example
 * const handlers: Pick<Handlers<operations, operationSecurity>, 'getBook'> = {
 *   async getBook({ caller, params: { isbn } }) {
 *     const book = await books.get(caller.subject, isbn);
 *     return book ?? new ApiError(errors.bookNotFound);
 *   },
 * };
 * @typeParam Operations - `operations` of the contract's generated types.
 * @typeParam Security - `operationSecurity` of the same types.
 */
export type Handlers<Operations, Security extends { [Id in keyof Operations]: unknown }> = {
  [Id in keyof Operations]: (
    request: OperationRequest<Operations[Id], Security[Id]>,
  ) => Promise<OrVoid<OperationResult<Operations[Id]>> | OperationError<Operations[Id]>>;
};

/** To the compiler, a function that returns nothing returns void, unless it was written where a handler is expected. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- handlers may be functions that return nothing
type OrVoid<Result> = undefined extends Result ? Result | void : Result;

type ErrorKey<Key> = StartingWith<'4' | '5' | 'default', Key>;

type Contents<Response> = Response extends { content: infer Content }
  ? {
      [Type in keyof Content]: { readonly mediaType: Type; readonly body: Content[Type] };
    }[keyof Content]
  : never;

/** The errors of a contract: one of the media types that its operations declare for errors, with the body. */
export type ErrorOf<Operations> = {
  [Id in keyof Operations]: Responses<Operations[Id]> extends infer All
    ? Contents<All[ErrorKey<keyof All> & keyof All]>
    : never;
}[keyof Operations];

/** The handlers of any contract, by operationId. */
export type AnyHandlers = Readonly<Record<string, (request: never) => Promise<unknown>>>;
