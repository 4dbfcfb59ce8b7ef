// Who calls: a verifier for each security scheme of the contract.
import type { ServiceContext, Verifiers } from "contract-server";
import type { securitySchemes } from "./types.gen.js";

/**
 * Creates the verifiers. Each returns whom a credential identifies, as in
 * `{ subject: "ada" }`, or undefined: 401. Until you write it, it refuses everybody.
 */
export function createVerifiers(
  context: ServiceContext,
): Verifiers<securitySchemes> {
  return {
    // $VERIFIERS$
  };
}
