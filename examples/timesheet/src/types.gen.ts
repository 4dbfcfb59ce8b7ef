// Generated from ../openapi.yaml by "contract-server types"; do not edit.

type $ProjectId = string;
/** A text without U+0000. */
type $Text = string;
/** A time in UTC, to the second. */
type $Time = string;
type $ProjectDetails = {
  name: $Text;
  /** What an hour costs, in cents. */
  rate: number;
};
type $Project = {
  project: $ProjectId;
  name: $Text;
  rate: number;
  /** The time of all entries. */
  seconds: number;
  /** The part of it that is on invoices. */
  billed: number;
};
type $NewTimer = {
  project: $ProjectId;
};
type $Timer = {
  project: $ProjectId;
  start: $Time;
};
type $NewEntry = {
  project: $ProjectId;
  start: $Time;
  seconds: number;
};
type $Entry = {
  /** It begins with the project and the start. */
  id: string;
  project: $ProjectId;
  start: $Time;
  seconds: number;
};
type $NewInvoice = {
  project: $ProjectId;
};
type $Invoice = {
  number: bigint;
  project: $ProjectId;
  seconds: number;
  /** The price, in cents. */
  amount: number;
  entries: string[];
};
type $Error = {
  /** The status times 100, plus a number. */
  error: number;
  message: string;
};

export interface components {
  schemas: {
    ProjectId: $ProjectId;
    Text: $Text;
    Time: $Time;
    ProjectDetails: $ProjectDetails;
    Project: $Project;
    NewTimer: $NewTimer;
    Timer: $Timer;
    NewEntry: $NewEntry;
    Entry: $Entry;
    NewInvoice: $NewInvoice;
    Invoice: $Invoice;
    Error: $Error;
  };
}
export interface operations {
  /** List projects, with their totals */
  listProjects: {
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
          "application/json": $Project[];
        };
      };
      default: {
        content: {
          "application/json": $Error;
        };
      };
    };
  };
  /** Create a project, or change its name and rate */
  putProject: {
    parameters: {
      path: {
        project: $ProjectId;
      };
      query?: never;
      header?: never;
      cookie?: never;
    };
    requestBody: {
      content: {
        "application/json": $ProjectDetails;
      };
    };
    responses: {
      200: {
        content: {
          "application/json": $Project;
        };
      };
      default: {
        content: {
          "application/json": $Error;
        };
      };
    };
  };
  /** List the entries of a project by time */
  listEntries: {
    parameters: {
      path: {
        project: $ProjectId;
      };
      query: {
        from?: $Time;
        before?: $Time;
        unbilled: boolean;
        limit?: number;
      };
      header?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        content: {
          "application/json": $Entry[];
        };
      };
      default: {
        content: {
          "application/json": $Error;
        };
      };
    };
  };
  /** Read the timer */
  getTimer: {
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
          "application/json": $Timer;
        };
      };
      default: {
        content: {
          "application/json": $Error;
        };
      };
    };
  };
  /** Start the timer */
  startTimer: {
    parameters: {
      path?: never;
      query?: never;
      header?: {
        "Idempotency-Key"?: string;
      };
      cookie?: never;
    };
    requestBody: {
      content: {
        "application/json": $NewTimer;
      };
    };
    responses: {
      200: {
        content: {
          "application/json": $Timer;
        };
      };
      default: {
        content: {
          "application/json": $Error;
        };
      };
    };
  };
  /** Stop the timer, and make an entry of its time */
  stopTimer: {
    parameters: {
      path?: never;
      query?: never;
      header?: {
        "Idempotency-Key"?: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        content: {
          "application/json": $Entry;
        };
      };
      default: {
        content: {
          "application/json": $Error;
        };
      };
    };
  };
  /** Add an entry */
  addEntry: {
    parameters: {
      path?: never;
      query?: never;
      header?: {
        "Idempotency-Key"?: string;
      };
      cookie?: never;
    };
    requestBody: {
      content: {
        "application/json": $NewEntry;
      };
    };
    responses: {
      200: {
        content: {
          "application/json": $Entry;
        };
      };
      default: {
        content: {
          "application/json": $Error;
        };
      };
    };
  };
  /** List invoices, the newest first */
  listInvoices: {
    parameters: {
      path?: never;
      query?: {
        before?: bigint;
        limit?: number;
      };
      header?: never;
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        content: {
          "application/json": $Invoice[];
        };
      };
      default: {
        content: {
          "application/json": $Error;
        };
      };
    };
  };
  /** Put the entries of a project that are not on an invoice yet on a new one */
  createInvoice: {
    parameters: {
      path?: never;
      query?: never;
      header?: {
        "Idempotency-Key"?: string;
      };
      cookie?: never;
    };
    requestBody: {
      content: {
        "application/json": $NewInvoice;
      };
    };
    responses: {
      200: {
        content: {
          "application/json": $Invoice;
        };
      };
      default: {
        content: {
          "application/json": $Error;
        };
      };
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
