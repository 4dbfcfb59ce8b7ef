// Generated from ../openapi.yaml by "contract-server types"; do not edit.

export interface paths {
    "/projects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List projects, with their totals */
        get: operations["listProjects"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/projects/{project}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                project: components["parameters"]["project"];
            };
            cookie?: never;
        };
        get?: never;
        /** Create a project, or change its name and rate */
        put: operations["putProject"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/projects/{project}/entries": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                project: components["parameters"]["project"];
            };
            cookie?: never;
        };
        /** List the entries of a project by time */
        get: operations["listEntries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/timer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the timer
         * @description 40402 means that none is running.
         */
        get: operations["getTimer"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/timer/start": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Start the timer
         * @description 40900 means that it is running already.
         */
        post: operations["startTimer"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/timer/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop the timer, and make an entry of its time
         * @description 40402 means that none is running.
         */
        post: operations["stopTimer"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/entries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Add an entry */
        post: operations["addEntry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/invoices": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List invoices, the newest first */
        get: operations["listInvoices"];
        put?: never;
        /**
         * Put the entries of a project that are not on an invoice yet on a new one
         * @description The earliest 80 are taken; repeat it with another key for the rest. 40901 means that there are none. Invoices have
         *     the numbers 1, 2, 3 and so on, without a gap.
         */
        post: operations["createInvoice"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @example garden */
        ProjectId: string;
        /** @description A text without U+0000. */
        Text: string;
        /**
         * Format: date-time
         * @description A time in UTC, to the second.
         * @example 2030-01-31T09:00:00Z
         */
        Time: string;
        ProjectDetails: {
            name: components["schemas"]["Text"];
            /** @description What an hour costs, in cents. */
            rate: number;
        };
        Project: {
            project: components["schemas"]["ProjectId"];
            name: components["schemas"]["Text"];
            rate: number;
            /** @description The time of all entries. */
            seconds: number;
            /** @description The part of it that is on invoices. */
            billed: number;
        };
        NewTimer: {
            project: components["schemas"]["ProjectId"];
        };
        Timer: {
            project: components["schemas"]["ProjectId"];
            start: components["schemas"]["Time"];
        };
        NewEntry: {
            project: components["schemas"]["ProjectId"];
            start: components["schemas"]["Time"];
            seconds: number;
        };
        Entry: {
            /** @description It begins with the project and the start. */
            id: string;
            project: components["schemas"]["ProjectId"];
            start: components["schemas"]["Time"];
            seconds: number;
        };
        NewInvoice: {
            project: components["schemas"]["ProjectId"];
        };
        Invoice: {
            /** Format: int64 */
            number: bigint;
            project: components["schemas"]["ProjectId"];
            seconds: number;
            /** @description The price, in cents. */
            amount: number;
            entries: string[];
        };
        Error: {
            /**
             * Format: int32
             * @description The status times 100, plus a number.
             */
            error: number;
            message: string;
        };
    };
    responses: {
        /** @description The timer is running. */
        Timer: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Timer"];
            };
        };
        /** @description The entry. */
        Entry: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Entry"];
            };
        };
        /** @description The request failed. */
        Error: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
    };
    parameters: {
        project: components["schemas"]["ProjectId"];
        /** @description The maximum number of them. Without it, the list is complete. */
        limit: number;
        /**
         * @description Any text in double quotes, which no other request has.
         * @example "8e03978e-40d5-43e8-bc93-6894a57f9324"
         */
        idempotencyKey: string;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listProjects: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The projects, in the order of their ids. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Project"][];
                };
            };
            default: components["responses"]["Error"];
        };
    };
    putProject: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                project: components["parameters"]["project"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProjectDetails"];
            };
        };
        responses: {
            /** @description The project. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Project"];
                };
            };
            default: components["responses"]["Error"];
        };
    };
    listEntries: {
        parameters: {
            query: {
                /** @description The earliest start. */
                from?: components["schemas"]["Time"];
                /** @description The time before which they start. */
                before?: components["schemas"]["Time"];
                /** @description Whether only those are listed that are not on an invoice. */
                unbilled: boolean;
                /** @description The maximum number of them. Without it, the list is complete. */
                limit?: components["parameters"]["limit"];
            };
            header?: never;
            path: {
                project: components["parameters"]["project"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The entries, the earliest first. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Entry"][];
                };
            };
            default: components["responses"]["Error"];
        };
    };
    getTimer: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Timer"];
            default: components["responses"]["Error"];
        };
    };
    startTimer: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Any text in double quotes, which no other request has.
                 * @example "8e03978e-40d5-43e8-bc93-6894a57f9324"
                 */
                "Idempotency-Key"?: components["parameters"]["idempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewTimer"];
            };
        };
        responses: {
            200: components["responses"]["Timer"];
            default: components["responses"]["Error"];
        };
    };
    stopTimer: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Any text in double quotes, which no other request has.
                 * @example "8e03978e-40d5-43e8-bc93-6894a57f9324"
                 */
                "Idempotency-Key"?: components["parameters"]["idempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Entry"];
            default: components["responses"]["Error"];
        };
    };
    addEntry: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Any text in double quotes, which no other request has.
                 * @example "8e03978e-40d5-43e8-bc93-6894a57f9324"
                 */
                "Idempotency-Key"?: components["parameters"]["idempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewEntry"];
            };
        };
        responses: {
            200: components["responses"]["Entry"];
            default: components["responses"]["Error"];
        };
    };
    listInvoices: {
        parameters: {
            query?: {
                /** @description The number before which the list begins. */
                before?: bigint;
                /** @description The maximum number of them. Without it, the list is complete. */
                limit?: components["parameters"]["limit"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The invoices. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Invoice"][];
                };
            };
            default: components["responses"]["Error"];
        };
    };
    createInvoice: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Any text in double quotes, which no other request has.
                 * @example "8e03978e-40d5-43e8-bc93-6894a57f9324"
                 */
                "Idempotency-Key"?: components["parameters"]["idempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewInvoice"];
            };
        };
        responses: {
            /** @description The invoice. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Invoice"];
                };
            };
            default: components["responses"]["Error"];
        };
    };
}
/** The names of each operation's security schemes, with null if they are optional; never if it is public. */
export interface operationSecurity {
    listProjects: "bearerAuth";
    putProject: "bearerAuth";
    listEntries: "bearerAuth";
    getTimer: "bearerAuth";
    startTimer: "bearerAuth";
    stopTimer: "bearerAuth";
    addEntry: "bearerAuth";
    listInvoices: "bearerAuth";
    createInvoice: "bearerAuth";
}
/** What each security scheme is; optional if no operation uses it. */
export interface securitySchemes {
    bearerAuth: "bearer";
}
/** The scopes that operations require. */
export type requiredScope = "time:read" | "time:write";
