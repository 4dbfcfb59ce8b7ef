// Generated from test/support/garden/orchard.yaml by "npm run generate"; do not edit.

export interface paths {
    "/trees": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["exportTrees"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/trees/{tree-id}/photo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["photographTree"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/trees/{tree-id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                "tree-id": string;
            };
            cookie?: never;
        };
        get: operations["getTree"];
        put: operations["plantTree"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/trees/{tree-id}/drawing": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["drawTree"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/trees/{tree-id}/prune": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["postTreesByTreeIdPrune"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/harvests": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Has alternatives, with a discriminator and nested. */
        post: operations["recordHarvest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/branches": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Has a schema that contains itself. */
        post: operations["growBranch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/labels": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Has the other keywords of JSON Schema. */
        post: operations["printLabel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface webhooks {
    grown: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Thanks. */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface components {
    schemas: {
        Tree: {
            /** @constant */
            kind: "tree";
            /** @example 2.5 */
            height: number;
            /** Format: int64 */
            roots: bigint | null;
            owner?: string | null;
            name?: components["schemas"]["Name"];
        };
        Name: string;
        Harvest: components["schemas"]["Fruit"] | components["schemas"]["Wood"];
        Fruit: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "fruit";
            /** Format: int64 */
            count: bigint;
            buyer?: string | {
                /** Format: int64 */
                number: bigint;
            };
        };
        Wood: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "wood";
            length: number;
            dried?: boolean;
        };
        Branch: {
            /** Format: int64 */
            leaves: bigint;
            branches?: components["schemas"]["Branch"][];
            fork?: components["schemas"]["Branch"] | null;
        };
        Label: {
            place?: [
                bigint,
                string
            ];
            notes?: {
                [key: string]: string | bigint;
            };
        } & {
            size?: string;
            lines?: unknown[];
        };
    };
    responses: {
        /** @description The request failed. */
        Failed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    error?: number;
                    message?: string;
                };
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    exportTrees: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The trees. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/csv": string;
                };
            };
            default: components["responses"]["Failed"];
        };
    };
    photographTree: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                "tree-id": string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The photo, or a description of it. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "image/png": unknown;
                    "image/jpeg": unknown;
                    "application/json": components["schemas"]["Tree"];
                };
            };
            default: components["responses"]["Failed"];
        };
    };
    getTree: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                "tree-id": string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tree. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tree"];
                };
            };
            default: components["responses"]["Failed"];
        };
    };
    plantTree: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                "tree-id": string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Tree"];
            };
        };
        responses: {
            /** @description The tree. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tree"];
                };
            };
            default: components["responses"]["Failed"];
        };
    };
    drawTree: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                "tree-id": string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The drawing. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "image/png": unknown;
                };
            };
            default: components["responses"]["Failed"];
        };
    };
    postTreesByTreeIdPrune: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                "tree-id": string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It will be pruned. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["Failed"];
        };
    };
    recordHarvest: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Harvest"];
            };
        };
        responses: {
            /** @description The harvest. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Harvest"];
                };
            };
            default: components["responses"]["Failed"];
        };
    };
    growBranch: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Branch"];
            };
        };
        responses: {
            /** @description The branch. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Branch"];
                };
            };
            default: components["responses"]["Failed"];
        };
    };
    printLabel: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Label"];
            };
        };
        responses: {
            /** @description The label. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Label"];
                };
            };
            default: components["responses"]["Failed"];
        };
    };
}
/** The names of each operation's security schemes, with null if they are optional; never if it is public. */
export interface operationSecurity {
    exportTrees: never;
    photographTree: never;
    getTree: never;
    plantTree: never;
    drawTree: never;
    postTreesByTreeIdPrune: never;
    recordHarvest: never;
    growBranch: never;
    printLabel: never;
}
/** The scopes that operations require. */
export type requiredScope = never;
