// The operations of the contract. Replace each notImplemented with a function that
// returns the body of the response, or returns or throws an ApiError.
import {
  notImplemented,
  type Handlers,
  type ServiceContext,
} from "contract-server";
import type { operations, operationSecurity } from "./types.gen.js";

/** Creates the handlers. The context has the collections, the tokens and the log. */
export function createHandlers(
  context: ServiceContext,
): Handlers<operations, operationSecurity> {
  return {
    // $HANDLERS$
  };
}
