// Generated from test/support/garden/openapi.yaml by "npm run generate"; do not edit.

export type $Read<T> = {
    readonly $read: T;
};
export type $Write<T> = {
    readonly $write: T;
};
export type Readable<T> = T extends $Write<any> ? never : T extends $Read<infer U> ? Readable<U> : T extends (infer E)[] ? Readable<E>[] : T extends object ? {
    [K in keyof T as NonNullable<T[K]> extends $Write<any> ? never : K]: Readable<T[K]>;
} : T;
export type Writable<T> = T extends $Read<any> ? never : T extends $Write<infer U> ? Writable<U> : T extends (infer E)[] ? Writable<E>[] : T extends object ? {
    [K in keyof T as NonNullable<T[K]> extends $Read<any> ? never : K]: Writable<T[K]>;
} & {
    [K in keyof T as NonNullable<T[K]> extends $Read<any> ? K : never]?: never;
} : T;
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
    "/seeds": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Needs no credentials, but takes them; has parameters of every kind. */
        get: operations["listSeeds"];
        put?: never;
        /** @description Needs the key and a token of an OAuth scheme. */
        post: operations["sowSeed"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/seeds/{seed-id}/in/{rows}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                "seed-id": bigint;
                rows: number[];
            };
            cookie?: never;
        };
        get: operations["getSeed"];
        put?: never;
        post: operations["waterSeed"];
        delete?: never;
        options?: never;
        head?: never;
        patch: operations["changeSeed"];
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @enum {unknown} */
        Color: "red" | "white";
        Kind: {
            kind: string;
            /** Format: int64 */
            id: $Read<bigint>;
            weight?: number;
            /** Format: int64 */
            code?: bigint;
        };
        NewSeed: components["schemas"]["Kind"] & {
            depth: number;
            code?: unknown;
            /**
             * Format: int64
             * @default 1
             */
            rows: bigint;
            secret?: $Write<string>;
        };
        /** @description What was sown, with fields that no schema names. */
        Seed: {
            [key: string]: unknown;
        } & components["schemas"]["NewSeed"];
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
    listSeeds: {
        parameters: {
            query?: {
                colors?: components["schemas"]["Color"][];
                sizes?: bigint[];
                tags?: string[];
                limit?: number;
            };
            header: {
                "X-Season": number;
                "X-Years"?: number[];
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: {
                basket?: bigint;
            };
        };
        requestBody?: never;
        responses: {
            /** @description The seeds. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Seed"][];
                };
            };
            /** @description The seeds have not changed. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            "4XX": components["responses"]["Failed"];
            "5XX": components["responses"]["Failed"];
        };
    };
    sowSeed: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewSeed"];
            };
        };
        responses: {
            /** @description The seed was there before. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Seed"];
                };
            };
            /** @description The seed is sown. */
            201: {
                headers: {
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Seed"];
                };
            };
            default: components["responses"]["Failed"];
        };
    };
    getSeed: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                "seed-id": bigint;
                rows: number[];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What was asked for. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
            default: components["responses"]["Failed"];
        };
    };
    waterSeed: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                "seed-id": bigint;
                rows: number[];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The seed has water. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["Failed"];
        };
    };
    changeSeed: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                "seed-id": bigint;
                rows: number[];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NewSeed"];
                "application/merge-patch+json": Record<string, never>;
            };
        };
        responses: {
            /** @description What was sent. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.garden+json": unknown;
                };
            };
            default: components["responses"]["Failed"];
        };
    };
}
/** The names of each operation's security schemes, with null if they are optional; never if it is public. */
export interface operationSecurity {
    describeGarden: never;
    listBeds: "apiKey" | "bearerAuth";
    getBed: "apiKey";
    replaceBed: "apiKey";
    removeBed: "apiKey";
    listSeeds: "apiKey" | null;
    sowSeed: "gardenAuth" | "apiKeyInQuery";
    getSeed: "apiKey";
    waterSeed: "apiKey";
    changeSeed: "apiKey";
}
/** The scopes that operations require. */
export type requiredScope = "beds:read" | "beds:write" | "seeds:sow";
