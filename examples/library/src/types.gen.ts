// Generated from ../openapi.yaml by "contract-server types"; do not edit.

/** The ISBN with 10 or 13 digits, without hyphens. */
type $Isbn = string;
/** A text without U+0000. */
type $Text = string;
type $Date = string;
type $Book = {
  isbn: $Isbn;
  title: $Text;
  author: $Text;
  shelf?: $Text;
};
type $BookDetails = {
  title: $Text;
  author: $Text;
  shelf?: $Text;
};
type $BookChange = {
  title?: $Text;
  author?: $Text;
  shelf?: $Text;
};
type $NewLoan = {
  /** The number of the copy. */
  copy: bigint;
  isbn: $Isbn;
  borrower: $Text;
  due: $Date;
};
type $LoanDetails = {
  isbn: $Isbn;
  borrower: $Text;
  due: $Date;
  renewals: number;
};
type $Loan = {
  /** The number of the copy. */
  copy: bigint;
  isbn: $Isbn;
  borrower: $Text;
  due: $Date;
  /** How often the loan has been renewed. */
  renewals: number;
};
type $Problem = {
  type: string;
  /** What the code means. */
  title: string;
  status: number;
  /** What is wrong with this request. */
  detail?: string;
  /** The status times 100, plus a number. The operations name their own codes. */
  code: number;
};

export interface components {
  schemas: {
    Isbn: $Isbn;
    Text: $Text;
    Date: $Date;
    Book: $Book;
    BookDetails: $BookDetails;
    BookChange: $BookChange;
    NewLoan: $NewLoan;
    LoanDetails: $LoanDetails;
    Loan: $Loan;
    Problem: $Problem;
  };
}
export interface operations {
  /** List books */
  listBooks: {
    parameters: {
      path?: never;
      query?: {
        limit?: number;
      };
      header?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        content: {
          "application/json": $Book[];
        };
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** Add a book */
  createBook: {
    parameters: {
      path?: never;
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody: {
      content: {
        "application/json": $Book;
      };
    };
    responses: {
      201: {
        content: {
          "application/json": $Book;
        };
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** Read a book */
  getBook: {
    parameters: {
      path: {
        isbn: $Isbn;
      };
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        content: {
          "application/json": $Book;
        };
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** Replace a book */
  replaceBook: {
    parameters: {
      path: {
        isbn: $Isbn;
      };
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody: {
      content: {
        "application/json": $BookDetails;
      };
    };
    responses: {
      200: {
        content: {
          "application/json": $Book;
        };
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** Change some fields of a book */
  changeBook: {
    parameters: {
      path: {
        isbn: $Isbn;
      };
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody: {
      content: {
        "application/json": $BookChange;
      };
    };
    responses: {
      200: {
        content: {
          "application/json": $Book;
        };
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** Remove a book */
  deleteBook: {
    parameters: {
      path: {
        isbn: $Isbn;
      };
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      204: {
        content?: never;
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** List loans */
  listLoans: {
    parameters: {
      path?: never;
      query: {
        limit?: number;
        descending: boolean;
      };
      header?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        content: {
          "application/json": $Loan[];
        };
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** Lend a copy */
  createLoan: {
    parameters: {
      path?: never;
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody: {
      content: {
        "application/json": $NewLoan;
      };
    };
    responses: {
      201: {
        content: {
          "application/json": $Loan;
        };
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** Export all loans */
  exportLoans: {
    parameters: {
      path?: never;
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        content: {
          "text/csv": unknown;
        };
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** Read a loan */
  getLoan: {
    parameters: {
      path: {
        copy: bigint;
      };
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        content: {
          "application/json": $Loan;
        };
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** Correct a loan */
  replaceLoan: {
    parameters: {
      path: {
        copy: bigint;
      };
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody: {
      content: {
        "application/json": $LoanDetails;
      };
    };
    responses: {
      200: {
        content: {
          "application/json": $Loan;
        };
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** Take a copy back */
  deleteLoan: {
    parameters: {
      path: {
        copy: bigint;
      };
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      204: {
        content?: never;
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
    };
  };
  /** Renew a loan by 14 days */
  renewLoan: {
    parameters: {
      path: {
        copy: bigint;
      };
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        content: {
          "application/json": $Loan;
        };
      };
      default: {
        content: {
          "application/problem+json": $Problem;
        };
      };
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
/** The kind of each security scheme; optional if no operation uses it. */
export interface securitySchemes {
  bearerAuth: "bearer";
}
/** The scopes that operations require. */
export type requiredScope = "books:read" | "books:write" | "loans:read" | "loans:write";
