// The means by which a server answers and reports input and connections that no request handles.
import type { ErrorRenderer } from '../../base/errors.js';
import type { Report } from '../../base/events.js';

export interface Rejecting {
  /** Writes the bodies of errors. */
  readonly write: ErrorRenderer;
  /** More header lines of errors that belong to no request. */
  readonly headers?: readonly string[] | undefined;
  readonly report: Report;
}
