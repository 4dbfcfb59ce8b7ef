// The events that the layers of the server report, as one type: the log and the metrics come from nothing else.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ApiError } from './errors.js';

/** The reasons for a rejection before there was a request; docs/monitor.md explains each. */
export const rejectionReasons = [
  // Not HTTP/1.1, or a header section or a chunk extension that is too long.
  'malformed',
  'headers_too_large',
  'body_too_large',
  // A request that did not arrive in time.
  'timeout',
  'tls_handshake',
  // A request that came before its turn, and what would wait on a connection while too much does on all of them.
  'pipelined',
  'too_much_waiting',
  // Connections that are closed at once.
  'connection_limit',
] as const;
export type RejectionReason = (typeof rejectionReasons)[number];

/** The outcomes of looking at the credentials of a request; `failed` if they could not be verified. */
export const verifications = ['accepted', 'missing', 'invalid', 'failed'] as const;

/** The ends of a run of a transaction's function; `repeated` if what it had read did not hold. */
export const transactionOutcomes = ['completed', 'repeated', 'failed'] as const;

/** The purpose of a connection to a database. */
export type ConnectionPurpose = 'reads' | 'writes' | 'transactions';

/** The values that a store can measure at any time; undefined if it cannot at the moment. */
export interface Measures {
  /** Writes that wait for their commit. */
  readonly write_queue_rows: () => number;
  readonly database_connections: () => Readonly<Record<ConnectionPurpose, number>>;
  /** 1 if the database took no writes at the last check, otherwise 0. */
  readonly database_read_only: () => number;
}

/** Something that happened, for the log, the metrics, or both. */
export type ServiceEvent =
  | { readonly type: 'request started' }
  /** `isSent`: whether the operating system has the whole response. `address`: of the client; empty if it is gone. */
  | {
      readonly type: 'request ended';
      readonly request: FastifyRequest;
      readonly reply: FastifyReply;
      readonly isSent: boolean;
      readonly address: string;
    }
  /** The server could not do what a request asked for. */
  | { readonly type: 'request failed'; readonly request: FastifyRequest; readonly error: ApiError }
  /** An error is sent. `request` is Node's object. */
  | { readonly type: 'error sent'; readonly error: ApiError; readonly request: object }
  | { readonly type: 'error not rendered'; readonly error: ApiError; readonly fault: unknown }
  /** Something was rejected that no request handles. `requestId`: in the response, if there is one. */
  | {
      readonly type: 'rejected';
      readonly reason: RejectionReason;
      readonly requestId?: string | undefined;
      readonly address?: string | undefined;
    }
  | { readonly type: 'credentials verified'; readonly outcome: (typeof verifications)[number] }
  | { readonly type: 'certificate loaded'; readonly expires: Date }
  /** A batch of writes was committed, or could not be. */
  | { readonly type: 'writes committed'; readonly rows: number; readonly seconds: number }
  | { readonly type: 'transaction ended'; readonly outcome: (typeof transactionOutcomes)[number] }
  /** The database cannot be reached at the start, which is tried again. */
  | { readonly type: 'store unreachable'; readonly fault: unknown }
  /** From now on, a store can be measured. */
  | { readonly type: 'store opened'; readonly measures: Partial<Measures> };

/** Receives events. It throws nothing, and does not wait. */
export type Report = (event: ServiceEvent) => void;

export const reportNothing: Report = () => undefined;

/** Does work in the context of a trace. */
export type InTrace = <T>(work: () => T) => T;
