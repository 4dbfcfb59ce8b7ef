// Generated from test/support/garden/orchard.yaml by "npm run generate"; do not edit.

export interface paths {
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
}
/** The names of each operation's security schemes, with null if they are optional; never if it is public. */
export interface operationSecurity {
    getTree: never;
    plantTree: never;
    drawTree: never;
    postTreesByTreeIdPrune: never;
}
/** The scopes that operations require. */
export type requiredScope = never;
