// Generated from ../../../openapi.yaml by "contract-server types"; do not edit.

export interface paths {
    "/plants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List plants
         * @description Returns the plants that you have access to, in ascending order of their ids, so that `limit` returns a stable
         *     prefix: `/plants?limit=2` returns the two plants with the lowest ids. Requires the scope `plants:read`.
         *
         *     - 40006: `limit` is out of range or repeated, or there is another query parameter.
         *     - A long list is read while it is streamed, so it is not a snapshot: a plant that exists during the whole
         *       transfer appears exactly once. If a list cannot be completed, the connection is closed; an incomplete list
         *       never looks complete.
         *     - A list that fits into one page, in general up to 500 plants and 256 KiB, has an `ETag`. Send it back in
         *       `If-None-Match`: if the list has not changed, the response is 304 without a body.
         */
        get: operations["listPlants"];
        put?: never;
        /**
         * Create a plant
         * @description Stores a plant under an `id` that you choose, and returns it without the id: after
         *     `{"id": 1, "name": "Monstera deliciosa"}`, the response is `{"name": "Monstera deliciosa"}`, and the plant is on
         *     disk. Requires the scope `plants:write`.
         *
         *     - 40010: you already have a different plant with this id. Identifiers are unique per subject.
         *     - 40011: you already have exactly this plant. If a response was lost (50302, a timeout), repeat the request:
         *       40011 means that the plant was created.
         *     - 40001 to 40005: the body is not valid. It is JSON in UTF-8, of at most 1 MiB unless the operator has set
         *       another limit; if a key is repeated, the last one wins.
         */
        post: operations["createPlant"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/plants/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete a plant
         * @description Deletes one of your plants: after `DELETE /plants/1` the response is 204, and the deletion is on disk. Requires
         *     the scope `plants:write`.
         *
         *     - 40007: the id is not an integer in canonical decimal digits.
         *     - 40400: you have no plant with this id. The response is the same for a plant that does not exist, is already
         *       deleted, or belongs to another subject. After a lost response (50302, a timeout), repeat the request: 40400
         *       then means that the plant was deleted.
         */
        delete: operations["deletePlant"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A plant as the service returns it, without its id. */
        Plant: {
            /** @description The name of the plant. */
            name: string;
            /** @description Tag to specify the type. */
            tag?: string;
        };
        /** @description A plant to create. Other fields are rejected. */
        NewPlant: {
            /**
             * Format: int64
             * @description Identification number of the plant, from -2^63 to 2^63-1, exact over the whole range and unique per
             *     subject. A JSON number in any notation of an integer: `1`, `1.0` and `1e0` are equal.
             */
            id: bigint;
            /**
             * @description The name of the plant. Any string within the limit on the body, including the empty string, without
             *     U+0000 or unpaired surrogates. It is returned unchanged.
             */
            name: string;
            /**
             * @description Tag to specify the type. Any string within the limit on the body, including the empty string, without
             *     U+0000 or unpaired surrogates. It is returned unchanged.
             */
            tag?: string;
        };
        /**
         * @description The body of every response with a status of 400 or above. `error` is the status times 100, plus a number. New
         *     codes may be added: handle an unknown code by its status.
         *
         *     | `error` | meaning |
         *     |---|---|
         *     | 40000 | The request is not well-formed HTTP. |
         *     | 40001 | The body is not well-formed JSON in UTF-8. |
         *     | 40002 | The body does not match the schema. |
         *     | 40003 | The body's media type or content coding is not supported. |
         *     | 40004 | The body is missing. |
         *     | 40005 | The body is too large. |
         *     | 40006 | A query parameter is unknown, repeated or out of range. |
         *     | 40007 | A path parameter is not valid. |
         *     | 40008 | The request target is not a valid URL path. |
         *     | 40009 | The Host header is missing or repeated. |
         *     | 40010 | You already have a different plant with this id. |
         *     | 40011 | You already have exactly this plant: an earlier request created it. |
         *     | 40100 | The access token is missing. |
         *     | 40101 | The access token is malformed, unknown, expired or revoked. |
         *     | 40300 | The access token lacks the scope that the operation needs. |
         *     | 40400 | You have no plant with this id. |
         *     | 40401 | There is nothing at this path. |
         *     | 40500 | The path does not support this method. |
         *     | 40800 | The request took too long to arrive. |
         *     | 41700 | The Expect header asks for something other than `100-continue`. |
         *     | 42900 | Too many requests; `Retry-After` says when to try again. |
         *     | 43100 | The request's header section is too large. |
         *     | 50000 | The server failed. |
         *     | 50300 | The service is temporarily unavailable; the request had no effect. |
         *     | 50301 | The service is overloaded; the request had no effect. |
         *     | 50302 | The outcome is unknown: the request may have taken effect. Retry; 40011, or 40400 for a deletion, means that it did. |
         */
        Error: {
            /**
             * Format: int32
             * @description A stable code. The description of this schema lists them.
             */
            error: number;
            /** @description What is wrong and where, in human-readable form. The wording may change. */
            message: string;
        };
    };
    responses: {
        /**
         * @description The body (40001 to 40005) or a query parameter (40006) is invalid, or the plant conflicts with one that you
         *     have (40010, 40011). The message lists every problem.
         */
        InvalidPlant: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description A query parameter is invalid (40006). The message lists every problem. */
        InvalidLimit: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The id is invalid (40007), or there is a query parameter (40006). */
        InvalidId: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The access token is missing (40100) or not valid (40101). */
        Unauthorized: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The access token lacks the scope `plants:write` (40300). */
        WriteForbidden: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The access token lacks the scope `plants:read` (40300). */
        ReadForbidden: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description You have no plant with this id (40400). */
        NotFound: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /**
         * @description The subject, or the client's address, has made too many requests: the operator may limit their number in a time
         *     window (42900). `Retry-After` says when to try again.
         */
        TooManyRequests: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Retry-After": components["headers"]["Retry-After"];
                /**
                 * @description Maximum number of requests in a time window.
                 * @example 600
                 */
                "RateLimit-Limit": number;
                /**
                 * @description Number of requests left in this time window.
                 * @example 0
                 */
                "RateLimit-Remaining": number;
                /**
                 * @description Seconds until the next time window.
                 * @example 17
                 */
                "RateLimit-Reset": number;
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /**
         * @description The server failed (50000), perhaps after the request had taken effect. X-Request-Id identifies the request in the
         *     server's logs.
         */
        InternalServerError: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The service is unavailable (50300) or overloaded (50301). Try again. */
        ReadUnavailable: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Retry-After": components["headers"]["Retry-After"];
                "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The service is unavailable (50300) or overloaded (50301), or the outcome is unknown (50302). Try again. */
        WriteUnavailable: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Retry-After": components["headers"]["Retry-After"];
                "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: {
        /**
         * @description Identifies the request in the service's logs. A value that the client sends is used if it consists of 1 to 64
         *     of the characters A-Z, a-z, 0-9, `.`, `_` and `-`.
         * @example 5f0c2d1e-1
         */
        "X-Request-Id": string;
        /**
         * @description Only the caller's own cache may store the response, and must revalidate it before use.
         * @example private, no-cache
         */
        "Cache-Control": string;
        /**
         * @description The entity tag of a list that fits into one page. Longer lists have none.
         * @example W/"p5n2mA1a3HnBpg"
         */
        ETag: string;
        /**
         * @description Maximum number of requests in a time window, if the operator limits it.
         * @example 600
         */
        "RateLimit-Limit": number;
        /**
         * @description Number of requests left in this time window, if the operator limits it.
         * @example 0
         */
        "RateLimit-Remaining": number;
        /**
         * @description Seconds until the next time window, if the operator limits it.
         * @example 17
         */
        "RateLimit-Reset": number;
        /**
         * @description A Bearer challenge (RFC 6750).
         * @example Bearer realm="plant-store"
         */
        "WWW-Authenticate": string;
        /**
         * @description Seconds to wait before repeating the request.
         * @example 1
         */
        "Retry-After": number;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listPlants: {
        parameters: {
            query?: {
                /**
                 * @description Maximum number of plants, in canonical decimal digits. Without it, all plants are returned.
                 * @example 100
                 */
                limit?: number;
            };
            header?: {
                /**
                 * @description The `ETag` of an earlier response. If the list has not changed, the response is 304.
                 * @example W/"p5n2mA1a3HnBpg"
                 */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The plants. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Plant"][];
                };
            };
            /** @description The list has not changed since the response whose `ETag` was sent in `If-None-Match`. */
            304: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidLimit"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ReadForbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ReadUnavailable"];
        };
    };
    createPlant: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewPlant"];
            };
        };
        responses: {
            /** @description The plant is stored. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Plant"];
                };
            };
            400: components["responses"]["InvalidPlant"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["WriteForbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WriteUnavailable"];
        };
    };
    deletePlant: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The plant's identifier, from -2^63 to 2^63-1, in canonical decimal digits: `-` is allowed; `+`, leading
                 *     zeros and `-0` are not.
                 * @example 1
                 */
                id: bigint;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The plant is deleted. */
            204: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidId"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["WriteForbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["WriteUnavailable"];
        };
    };
}
/** The names of each operation's security schemes, with null if they are optional; never if it is public. */
export interface operationSecurity {
    listPlants: "bearerAuth";
    createPlant: "bearerAuth";
    deletePlant: "bearerAuth";
}
/** What each security scheme is; optional if no operation uses it. */
export interface securitySchemes {
    bearerAuth: "bearer";
}
/** The scopes that operations require. */
export type requiredScope = "plants:read" | "plants:write";
