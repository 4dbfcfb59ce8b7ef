// Generated from openapi.yaml by "npm run generate"; do not edit.

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
         * @description Returns the plants that the caller has access to, in ascending order of their ids.
         */
        get: operations["listPlants"];
        put?: never;
        /**
         * Create a plant
         * @description Stores a plant under an `id` that the caller chooses. The plant is on disk before the response is sent. If
         *     the response is lost, repeat the request: 40011 means that the plant was created.
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
         * @description Deletes one of the caller's plants. The deletion is on disk before the response is sent. The same 404 is
         *     returned for a plant that does not exist, is already deleted or belongs to another subject.
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
             * @description Identification number of the plant, from -2^63 to 2^63-1, unique per subject.
             */
            id: bigint;
            /** @description The name of the plant. Any string without U+0000 or unpaired surrogates. */
            name: string;
            /** @description Tag to specify the type. Any string without U+0000 or unpaired surrogates. */
            tag?: string;
        };
        /** @description The body of every response with status 400 or above. */
        Error: {
            /**
             * Format: int32
             * @description A stable code, the status times 100 plus a number. The description of the API lists them.
             */
            error: number;
            /** @description What is wrong and where, in human-readable form. The wording may change. */
            message: string;
        };
    };
    responses: {
        /** @description The request is invalid. The message lists every problem. */
        BadRequest: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The access token is missing or not valid. */
        Unauthorized: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The access token lacks the scope that the operation needs. */
        Forbidden: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The caller has no plant with this id. */
        NotFound: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The caller, or the client's address, has made too many requests. */
        TooManyRequests: {
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
        /** @description The server failed. X-Request-Id identifies the request in the server's logs. */
        InternalServerError: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The service is unavailable or overloaded, or the outcome is unknown; see the code. */
        ServiceUnavailable: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Retry-After": components["headers"]["Retry-After"];
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
         * @description The entity tag of a list that is sent in one piece. Longer lists have none.
         * @example W/"p5n2mA1a3HnBpg"
         */
        ETag: string;
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
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The plants. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
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
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
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
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Plant"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    deletePlant: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The plant's identifier, in canonical decimal digits, from -2^63 to 2^63-1.
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
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
}
/** The names of each operation's security schemes, one of which must be satisfied; never if it is public. */
export interface operationSecurity {
    createPlant: "bearerAuth";
    listPlants: "bearerAuth";
    deletePlant: "bearerAuth";
}
/** The scopes that operations require. */
export type requiredScope = "plants:read" | "plants:write";
