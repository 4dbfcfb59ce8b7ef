// Who calls: a verifier for each security scheme of the contract.
import type { Verifiers } from "contract-server";
import type { securitySchemes } from "./types.gen.js";

/**
 * A function returns whom a credential identifies, as in `{ subject: "ada" }`, or
 * undefined: 401. Until you write it, it refuses everybody. "built-in" takes the
 * access tokens of the service.
 */
export const verifiers: Verifiers<securitySchemes> = {
  // $VERIFIERS$
};
