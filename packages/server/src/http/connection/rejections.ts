// Input and connections that no request handles: the log and the metrics of requests do not show them.
import type { ErrorRenderer } from '../../base/errors.js';

/** Why something was rejected, for the log and the metrics. */
export const rejectionReasons = [
  // Not HTTP/1.1, or a header section or a chunk extension that is too long.
  'malformed',
  'headers_too_large',
  'body_too_large',
  // A request that did not arrive in time.
  'timeout',
  'connect_method',
  'tls_handshake',
  // A request that came before its turn, and what waited on a connection while too much did on all of them.
  'pipelined',
  'too_much_waiting',
  // Connections that are closed at once.
  'connection_limit',
] as const;

export type RejectionReason = (typeof rejectionReasons)[number];

/** Something that was rejected. */
export interface Rejection {
  readonly reason: RejectionReason;
  /** The id in the response; undefined if there is none. */
  readonly requestId?: string | undefined;
  /** The address of the other side, which may be a proxy. */
  readonly address?: string | undefined;
}

/** Counts and logs what is rejected. */
export type ReportRejection = (rejection: Rejection) => void;

/** The means by which a server answers and reports rejections. */
export interface Rejecting {
  /** Writes the bodies of errors. */
  readonly write: ErrorRenderer;
  /** More header lines of errors that belong to no request. */
  readonly headers?: readonly string[] | undefined;
  /** Counts and logs a rejection. */
  readonly report: ReportRejection;
}

export const reportNothing: ReportRejection = () => undefined;
