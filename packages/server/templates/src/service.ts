// Defines the service.
import type { Opened, Service } from "contract-server";
// ?errors
import { renderError } from "./errors.js";
// /errors
import { createHandlers } from "./handlers.js";
import type {
  operations,
  operationSecurity,
  requiredScope,
  securitySchemes,
} from "./types.gen.js";
// ?verifiers
import { createVerifiers } from "./verifiers.js";
// /verifiers

/** The compiler reports a scope that the contract adds or removes. */
const scopes: Readonly<Record<requiredScope, true>> = {
  // $SCOPES$
};

export const service: Service = {
  name: "$NAME$",
  program: new URL("./main.js", import.meta.url),
  command: new URL("./cli.js", import.meta.url),
  contract: new URL("../$CONTRACT$", import.meta.url),
  open: (context): Opened<operations, operationSecurity, securitySchemes> => ({
    handlers: createHandlers(context),
    // ?verifiers
    verifiers: createVerifiers(context),
    // /verifiers
  }),
  collections: [],
  // ?store
  migrations: new URL("../migrations/", import.meta.url),
  databaseUrl: "file:./data/$NAME$.db",
  // /store
  errors: {},
  // ?errors
  renderError,
  // /errors
  scopes: Object.keys(scopes),
  tokenPrefix: "$WORDS$",
  realm: "$NAME$",
  metricPrefix: "$METRICS$",
};
