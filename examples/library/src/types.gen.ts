// Generated from ../openapi.yaml by "contract-server types"; do not edit.

export interface paths {
    "/books": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List books
         * @description In the order of their ISBN.
         */
        get: operations["listBooks"];
        put?: never;
        /**
         * Add a book
         * @description If the same book is there already, the response is the same. 40900 means that it is a different one.
         */
        post: operations["createBook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/books/{isbn}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                isbn: components["schemas"]["Isbn"];
            };
            cookie?: never;
        };
        /** Read a book */
        get: operations["getBook"];
        /**
         * Replace a book
         * @description 40400 means that there is no book to replace.
         */
        put: operations["replaceBook"];
        post?: never;
        /**
         * Remove a book
         * @description Its loans stay, since no change concerns two documents.
         */
        delete: operations["deleteBook"];
        options?: never;
        head?: never;
        /**
         * Change some fields of a book
         * @description Fields that are left out keep their values, also those that another request changes at the same time.
         */
        patch: operations["changeBook"];
        trace?: never;
    };
    "/loans": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List loans
         * @description In the order of the numbers of the copies.
         */
        get: operations["listLoans"];
        put?: never;
        /**
         * Lend a copy
         * @description A copy has at most one loan. If the same loan is there already, the response is the same; 40901 means that the
         *     copy is lent in a different way. Whether there is a book with the ISBN is not checked.
         */
        post: operations["createLoan"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/loans.csv": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export all loans
         * @description As CSV (RFC 4180), in the order of the numbers of the copies. An ISBN may begin with 0, so tell your spreadsheet
         *     that the column is text.
         */
        get: operations["exportLoans"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/loans/{copy}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The number of the copy. */
                copy: components["parameters"]["copy"];
            };
            cookie?: never;
        };
        /** Read a loan */
        get: operations["getLoan"];
        /**
         * Correct a loan
         * @description Replaces the loan with all its fields. 40402 means that the copy is not lent.
         */
        put: operations["replaceLoan"];
        post?: never;
        /** Take a copy back */
        delete: operations["deleteLoan"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/loans/{copy}/renewals": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The number of the copy. */
                copy: components["parameters"]["copy"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Renew a loan by 14 days
         * @description A loan can be renewed three times; 40902 means that it has been. Each request that succeeds counts, however many
         *     are sent at the same time. If a response is lost, read the loan before you repeat the request.
         */
        post: operations["renewLoan"];
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
        /**
         * @description The ISBN with 10 or 13 digits, without hyphens.
         * @example 9780141439600
         */
        Isbn: string;
        /** @description A text without U+0000. */
        Text: string;
        /**
         * Format: date
         * @example 2030-01-31
         */
        Date: string;
        Book: {
            isbn: components["schemas"]["Isbn"];
            title: components["schemas"]["Text"];
            author: components["schemas"]["Text"];
            shelf?: components["schemas"]["Text"];
        };
        BookDetails: {
            title: components["schemas"]["Text"];
            author: components["schemas"]["Text"];
            shelf?: components["schemas"]["Text"];
        };
        BookChange: {
            title?: components["schemas"]["Text"];
            author?: components["schemas"]["Text"];
            shelf?: components["schemas"]["Text"];
        };
        NewLoan: {
            /**
             * Format: int64
             * @description The number of the copy.
             */
            copy: bigint;
            isbn: components["schemas"]["Isbn"];
            borrower: components["schemas"]["Text"];
            due: components["schemas"]["Date"];
        };
        LoanDetails: {
            isbn: components["schemas"]["Isbn"];
            borrower: components["schemas"]["Text"];
            due: components["schemas"]["Date"];
            /** Format: int32 */
            renewals: number;
        };
        Loan: {
            /**
             * Format: int64
             * @description The number of the copy.
             */
            copy: bigint;
            isbn: components["schemas"]["Isbn"];
            borrower: components["schemas"]["Text"];
            due: components["schemas"]["Date"];
            /**
             * Format: int32
             * @description How often the loan has been renewed.
             */
            renewals: number;
        };
        Problem: {
            type: string;
            /** @description What the code means. */
            title: string;
            /** Format: int32 */
            status: number;
            /** @description What is wrong with this request. */
            detail?: string;
            /**
             * Format: int32
             * @description The status times 100, plus a number. The operations name their own codes.
             */
            code: number;
        };
    };
    responses: {
        /** @description The book is stored. */
        CreatedBook: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Book"];
            };
        };
        /** @description The book. */
        Book: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Book"];
            };
        };
        /** @description The copy is lent. */
        CreatedLoan: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Loan"];
            };
        };
        /** @description The loan. */
        Loan: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Loan"];
            };
        };
        /** @description The request failed. */
        Error: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: {
        /** @description The maximum number of entries. Without it, the list is complete. */
        limit: number;
        /** @description The number of the copy. */
        copy: bigint;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listBooks: {
        parameters: {
            query?: {
                /** @description The maximum number of entries. Without it, the list is complete. */
                limit?: components["parameters"]["limit"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The books. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Book"][];
                };
            };
            default: components["responses"]["Error"];
        };
    };
    createBook: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Book"];
            };
        };
        responses: {
            201: components["responses"]["CreatedBook"];
            default: components["responses"]["Error"];
        };
    };
    getBook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                isbn: components["schemas"]["Isbn"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Book"];
            default: components["responses"]["Error"];
        };
    };
    replaceBook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                isbn: components["schemas"]["Isbn"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BookDetails"];
            };
        };
        responses: {
            200: components["responses"]["Book"];
            default: components["responses"]["Error"];
        };
    };
    deleteBook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                isbn: components["schemas"]["Isbn"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The book is removed. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["Error"];
        };
    };
    changeBook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                isbn: components["schemas"]["Isbn"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BookChange"];
            };
        };
        responses: {
            200: components["responses"]["Book"];
            default: components["responses"]["Error"];
        };
    };
    listLoans: {
        parameters: {
            query: {
                /** @description The maximum number of entries. Without it, the list is complete. */
                limit?: components["parameters"]["limit"];
                /** @description Whether the highest number comes first. */
                descending: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The loans. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Loan"][];
                };
            };
            default: components["responses"]["Error"];
        };
    };
    createLoan: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewLoan"];
            };
        };
        responses: {
            201: components["responses"]["CreatedLoan"];
            default: components["responses"]["Error"];
        };
    };
    exportLoans: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A header, and a line for each loan. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/csv": string;
                };
            };
            default: components["responses"]["Error"];
        };
    };
    getLoan: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The number of the copy. */
                copy: components["parameters"]["copy"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Loan"];
            default: components["responses"]["Error"];
        };
    };
    replaceLoan: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The number of the copy. */
                copy: components["parameters"]["copy"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LoanDetails"];
            };
        };
        responses: {
            200: components["responses"]["Loan"];
            default: components["responses"]["Error"];
        };
    };
    deleteLoan: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The number of the copy. */
                copy: components["parameters"]["copy"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The copy is not lent any more. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["Error"];
        };
    };
    renewLoan: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The number of the copy. */
                copy: components["parameters"]["copy"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Loan"];
            default: components["responses"]["Error"];
        };
    };
}
/** The names of each operation's security schemes, with null if they are optional; never if it is public. */
export interface operationSecurity {
    listBooks: "bearerAuth";
    createBook: "bearerAuth";
    getBook: "bearerAuth";
    replaceBook: "bearerAuth";
    changeBook: "bearerAuth";
    deleteBook: "bearerAuth";
    listLoans: "bearerAuth";
    createLoan: "bearerAuth";
    exportLoans: "bearerAuth";
    getLoan: "bearerAuth";
    replaceLoan: "bearerAuth";
    deleteLoan: "bearerAuth";
    renewLoan: "bearerAuth";
}
/** What each security scheme is; optional if no operation uses it. */
export interface securitySchemes {
    bearerAuth: "bearer";
}
/** The scopes that operations require. */
export type requiredScope = "books:read" | "books:write" | "loans:read" | "loans:write";
