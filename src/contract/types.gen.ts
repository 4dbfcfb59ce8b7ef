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
         * @description Gives the plants that the caller has access to, in ascending order of their ids.
         */
        get: operations["listPlants"];
        put?: never;
        /**
         * Create a plant
         * @description Stores a plant under the caller's own `id`. Once it is answered, the plant is on the disk. When the answer is
         *     lost, repeat the request: code 40011 tells that the plant is there.
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
         * @description Deletes one of the caller's plants. Once it is answered, the plant is gone from the disk. A plant that is
         *     unknown, already deleted or another subject's gives the same 404.
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
        /** @description A plant as the service returns it; its id is not part of it. */
        Plant: {
            /** @description The name of the plant. */
            name: string;
            /** @description Tag to specify the type. */
            tag?: string;
        };
        /** @description A plant to create. Fields that are not listed are refused. */
        NewPlant: {
            /**
             * Format: int64
             * @description Identification number of the plant, from -2^63 to 2^63-1, unique per subject.
             */
            id: bigint;
            /** @description The name of the plant. Any text without U+0000 and unpaired surrogates. */
            name: string;
            /** @description Tag to specify the type. Any text without U+0000 and unpaired surrogates. */
            tag?: string;
        };
        /** @description What went wrong. */
        Error: {
            /**
             * Format: int32
             * @description A stable code, the status times 100 plus a number; the description of the API lists them.
             */
            error: number;
            /** @description What is wrong and where, for a person. Its wording may change. */
            message: string;
        };
    };
    responses: {
        /** @description The request cannot be carried out as it is; the message names every fault. */
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
        /** @description The caller, or the client's address, made too many requests in too short a time. */
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
        /** @description The server failed. X-Request-Id names the request in its logs. */
        InternalServerError: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The service is unavailable or overloaded for now, or the outcome is unknown; the code tells which. */
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
         * @description Names the request in the service's logs. A value that the client sent is taken over when it has 1 to 64 of
         *     the characters A-Z, a-z, 0-9, `.`, `_` and `-`.
         * @example 5f0c2d1e-1
         */
        "X-Request-Id": string;
        /**
         * @description Only the caller's own cache may keep the answer, and it must ask again before it uses it.
         * @example private, no-cache
         */
        "Cache-Control": string;
        /**
         * @description Names the content of a list that is sent in one piece; a longer one has none.
         * @example W/"p5n2mA1a3HnBpg"
         */
        ETag: string;
        /**
         * @description How many requests there may be in a time window.
         * @example 600
         */
        "RateLimit-Limit": number;
        /**
         * @description How many of them are left.
         * @example 0
         */
        "RateLimit-Remaining": number;
        /**
         * @description The number of seconds until the next time window.
         * @example 17
         */
        "RateLimit-Reset": number;
        /**
         * @description The challenge of RFC 6750.
         * @example Bearer realm="plant-store"
         */
        "WWW-Authenticate": string;
        /**
         * @description The number of seconds to wait before the request is repeated.
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
                 * @description The maximum number of plants to return; without it, all. Canonical decimal digits.
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
            /** @description The list is still the one that `If-None-Match` names. */
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
/** The names of the security schemes of which one must be satisfied; never where the operation is public. */
export interface operationSecurity {
    createPlant: "bearerAuth";
    listPlants: "bearerAuth";
    deletePlant: "bearerAuth";
}
/** The scopes that operations need. */
export type requiredScope = "plants:read" | "plants:write";
