// Generated from test/support/garden/openapi.yaml by "npm run generate"; do not edit.

export interface paths {
    "/about": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Public. */
        get: operations["describeGarden"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/beds": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description A list without conditional requests, for either of two schemes. */
        get: operations["listBeds"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/beds/{bed}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["getBed"];
        put: operations["replaceBed"];
        post?: never;
        /** @description Needs the key alone. Its handler fails in a way that the contract does not declare. */
        delete: operations["removeBed"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @enum {string} */
        Soil: "clay" | "loam" | "sand";
        Corner: {
            x: number;
            /** Format: double */
            y?: number | null;
        };
        NewBed: {
            title: string;
            /** Format: double */
            area: number;
            rows: number;
            /** Format: int64 */
            code?: bigint | null;
            /**
             * Format: int32
             * @enum {integer}
             */
            level?: 1 | 2 | 3;
            shady?: boolean;
            soil?: components["schemas"]["Soil"];
            /** Format: date-time */
            plantedAt?: string | null;
            corners?: components["schemas"]["Corner"][];
            /** @description By the year. */
            yields?: {
                [key: string]: bigint;
            };
        };
        Bed: {
            title: string;
            /** Format: double */
            area: number;
            rows: number;
            /** Format: int64 */
            code?: bigint | null;
            /** Format: int32 */
            level?: number;
            shady?: boolean;
            soil?: components["schemas"]["Soil"];
            /** Format: date-time */
            plantedAt?: string | null;
            corners?: components["schemas"]["Corner"][];
            yields?: {
                [key: string]: bigint;
            };
        };
        Error: {
            /** Format: int32 */
            error: number;
            message: string;
        };
    };
    responses: {
        /** @description The request failed. */
        Failed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The caller is not known. */
        Unauthorized: {
            headers: {
                "WWW-Authenticate"?: string;
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
    };
    parameters: {
        bed: string;
    };
    requestBodies: never;
    headers: {
        "X-Request-Id": string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    describeGarden: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The garden. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                    };
                };
            };
            400: components["responses"]["Failed"];
            429: components["responses"]["Failed"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Failed"];
        };
    };
    listBeds: {
        parameters: {
            query?: {
                shady?: boolean;
                "min-area"?: number;
                rows?: number;
                level?: 1 | 2 | 3;
                soil?: components["schemas"]["Soil"];
                since?: string;
                title?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The beds. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Bed"][];
                };
            };
            400: components["responses"]["Failed"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Failed"];
            429: components["responses"]["Failed"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Failed"];
        };
    };
    getBed: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                bed: components["parameters"]["bed"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bed. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Revision": bigint;
                    "X-Note"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Bed"];
                };
            };
            400: components["responses"]["Failed"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Failed"];
            404: components["responses"]["Failed"];
            429: components["responses"]["Failed"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Failed"];
        };
    };
    replaceBed: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                bed: components["parameters"]["bed"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewBed"];
            };
        };
        responses: {
            /** @description The bed as it is now. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Bed"];
                };
            };
            400: components["responses"]["Failed"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Failed"];
            429: components["responses"]["Failed"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Failed"];
        };
    };
    removeBed: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                bed: components["parameters"]["bed"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bed is gone. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["Failed"];
            401: components["responses"]["Failed"];
            429: components["responses"]["Failed"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Failed"];
        };
    };
}
/** The names of each operation's security schemes, one of which must be satisfied; never if it is public. */
export interface operationSecurity {
    describeGarden: never;
    listBeds: "apiKey" | "bearerAuth";
    getBed: "apiKey";
    replaceBed: "apiKey";
    removeBed: "apiKey";
}
/** The scopes that operations require. */
export type requiredScope = "beds:read" | "beds:write";
