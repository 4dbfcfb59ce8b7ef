// Generated from ../openapi.yaml by "contract-server types"; do not edit.

/** A plant as the service returns it, without its id. */
type $Plant = {
  /** The name of the plant. */
  name: string;
  /** Tag to specify the type. */
  tag?: string;
};
/** A plant to create. Other fields are rejected. */
type $NewPlant = {
  /**
   * Identification number of the plant, from -2^63 to 2^63-1, exact over the whole range and unique per
   * subject. It may be written as any JSON number that is an integer: `1`, `1.0` and `1e0` are equal.
   */
  id: bigint;
  /**
   * The name of the plant. Any string within the limit on the body, including the empty string, without
   * U+0000 or unpaired surrogates. It is returned unchanged.
   */
  name: string;
  /**
   * Tag to specify the type. Any string within the limit on the body, including the empty string, without
   * U+0000 or unpaired surrogates. It is returned unchanged.
   */
  tag?: string;
};
/**
 * The body of every response with a status of 400 or above. `error` is the status times 100, plus a number. The
 * meaning of a code never changes. New codes may be added: handle an unknown code by its status.
 *
 * | `error` | meaning |
 * |---|---|
 * | 40000 | The request is not well-formed HTTP, or its method or version is unknown. |
 * | 40001 | The body is not well-formed JSON in UTF-8. |
 * | 40002 | The body does not match the schema. |
 * | 40003 | The body's media type or content coding is not supported. |
 * | 40004 | The body is missing. |
 * | 40005 | The body is too large. |
 * | 40006 | A query parameter is not valid. |
 * | 40007 | A path parameter is not valid. |
 * | 40008 | The request target is not a valid URL path. |
 * | 40009 | The Host header is missing, repeated or not valid. |
 * | 40010 | You already have a different plant with this id. |
 * | 40011 | You already have exactly this plant. |
 * | 40100 | The access token is missing. |
 * | 40101 | The access token is malformed, unknown, expired or revoked. |
 * | 40300 | The access token lacks the scope that the operation needs. |
 * | 40400 | You have no plant with this id. |
 * | 40401 | There is nothing at this path. |
 * | 40500 | The path does not support this method. |
 * | 40800 | The request took too long to arrive. |
 * | 41700 | The Expect header asks for something other than `100-continue`. |
 * | 42900 | Too many requests; `Retry-After` says when to try again. |
 * | 43100 | The request's header section is too large. |
 * | 50000 | The server failed. |
 * | 50300 | The service is temporarily unavailable; the request had no effect. |
 * | 50301 | The service is overloaded; the request had no effect. |
 * | 50302 | The outcome is unknown: the request may have taken effect. Retry; 40011, or 40400 for a deletion, means that it did. |
 */
type $Error = {
  /** A stable code. The description of this schema lists them, and `x-error-codes` names them. */
  error: number;
  /** What is wrong and where, in human-readable form. The wording may change. */
  message: string;
};

export interface components {
  schemas: {
    Plant: $Plant;
    NewPlant: $NewPlant;
    Error: $Error;
  };
}
export interface operations {
  /** List plants */
  listPlants: {
    parameters: {
      path?: never;
      query?: {
        limit?: number;
      };
      header?: {
        "X-Request-Id"?: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      200: {
        content: {
          "application/json": $Plant[];
        };
      };
      400: {
        content: {
          "application/json": $Error;
        };
      };
      401: {
        headers: {
          "WWW-Authenticate": string;
        };
        content: {
          "application/json": $Error;
        };
      };
      403: {
        headers: {
          "WWW-Authenticate": string;
        };
        content: {
          "application/json": $Error;
        };
      };
      429: {
        headers: {
          "Retry-After": number;
        };
        content: {
          "application/json": $Error;
        };
      };
      500: {
        content: {
          "application/json": $Error;
        };
      };
      503: {
        headers: {
          "Retry-After": number;
        };
        content: {
          "application/json": $Error;
        };
      };
    };
  };
  /** Create a plant */
  createPlant: {
    parameters: {
      path?: never;
      query?: never;
      header?: {
        "X-Request-Id"?: string;
      };
      cookie?: never;
    };
    requestBody: {
      content: {
        "application/json": $NewPlant;
      };
    };
    responses: {
      200: {
        content: {
          "application/json": $Plant;
        };
      };
      400: {
        content: {
          "application/json": $Error;
        };
      };
      401: {
        headers: {
          "WWW-Authenticate": string;
        };
        content: {
          "application/json": $Error;
        };
      };
      403: {
        headers: {
          "WWW-Authenticate": string;
        };
        content: {
          "application/json": $Error;
        };
      };
      429: {
        headers: {
          "Retry-After": number;
        };
        content: {
          "application/json": $Error;
        };
      };
      500: {
        content: {
          "application/json": $Error;
        };
      };
      503: {
        headers: {
          "Retry-After": number;
        };
        content: {
          "application/json": $Error;
        };
      };
    };
  };
  /** Delete a plant */
  deletePlant: {
    parameters: {
      path: {
        id: bigint;
      };
      query?: never;
      header?: {
        "X-Request-Id"?: string;
      };
      cookie?: never;
    };
    requestBody?: never;
    responses: {
      204: {
        content?: never;
      };
      400: {
        content: {
          "application/json": $Error;
        };
      };
      401: {
        headers: {
          "WWW-Authenticate": string;
        };
        content: {
          "application/json": $Error;
        };
      };
      403: {
        headers: {
          "WWW-Authenticate": string;
        };
        content: {
          "application/json": $Error;
        };
      };
      404: {
        content: {
          "application/json": $Error;
        };
      };
      429: {
        headers: {
          "Retry-After": number;
        };
        content: {
          "application/json": $Error;
        };
      };
      500: {
        content: {
          "application/json": $Error;
        };
      };
      503: {
        headers: {
          "Retry-After": number;
        };
        content: {
          "application/json": $Error;
        };
      };
    };
  };
}
/** The names of each operation's security schemes, with null if they are optional; never if it is public. */
export interface operationSecurity {
  listPlants: "bearerAuth";
  createPlant: "bearerAuth";
  deletePlant: "bearerAuth";
}
/** The kind of each security scheme; optional if no operation uses it. */
export interface securitySchemes {
  bearerAuth: "bearer";
}
/** The scopes that operations require. */
export type requiredScope = "plants:read" | "plants:write";
