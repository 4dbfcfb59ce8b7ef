// How errors look, also those of the server.
import type { ErrorFacts, RenderedError } from "contract-server";

// ?missing
/**
 * No form is known that all errors of the contract have:
 * $MISSING$
 * Return one, by `error.statusCode` if need be. Until then, errors have an integer
 * `error` and a text `message`, and each start warns of it.
 */
export const renderError: ((error: ErrorFacts) => RenderedError) | undefined =
  undefined;
// /missing
// ?forms
/** Renders an error as the contract declares it for its status. */
export function renderError(error: ErrorFacts): RenderedError {
  // $FORMS$
}
// /forms
// ?fields

/**
 * What is wrong with a request, by field, as in "user.name". Of the service's own
 * errors, it is their data: `new ApiError(taken, { data: { email: ["is taken"] } })`.
 * Other errors are those of "request".
 */
function byField(error: ErrorFacts): Record<string, string[]> {
  const { faults, message, data } = error;
  if (data !== undefined) return data as Record<string, string[]>;
  const fields = new Map<string, string[]>();
  for (const { path, message } of faults) {
    const steps = path.slice(1).split("/");
    const field =
      steps
        .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"))
        .join(".") || "request";
    fields.set(field, [...(fields.get(field) ?? []), message]);
  }
  return fields.size > 0 ? Object.fromEntries(fields) : { request: [message] };
}
// /fields
