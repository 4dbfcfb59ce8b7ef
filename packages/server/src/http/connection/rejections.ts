// The means by which a server answers and reports input and connections that no request handles.
import type { ErrorRenderer } from '../../base/errors.js';
import type { Report } from '../../base/events.js';

export interface Rejecting {
  /** Writes the bodies of errors. */
  readonly write: ErrorRenderer;
  readonly report: Report;
}
