// The limits with their defaults. Times in ms, lengths in bytes. Variables set some of them (process/config.ts).

const mebibyte = 1024 * 1024;

/** The limits of a service. Each thread has them for itself. */
export interface Limits {
  /** The time after SIGTERM to keep accepting connections. */
  drainTime: number;
  /** The time for running requests to finish after that. */
  shutdownTime: number;
  bodyLimit: number;
  /** The memory for all request bodies; lists and streams have twice as much. */
  memoryBudget: number;
  /** The maximum time for a request to arrive, and for a client to read a page of a list or a chunk of a stream. */
  requestTimeout: number;
  keepAliveTimeout: number;
  maxConnections: number;
  /** The time that requests wait for the event loop, longer than which they are refused; 0 for none. */
  maxEventLoopDelay: number;
  /** The requests of a subject in each minute; 0 for no limit. */
  ratePerSubject: number;
  /** The requests of an address in each minute; 0 for no limit. */
  ratePerAddress: number;
  /** The connections to PostgreSQL for reading. */
  poolSize: number;
  /** The maximum time to wait for PostgreSQL. */
  databaseTimeout: number;
  /** The length of a header section, without white space around values: that of Node.js. */
  headerLimit: number;
  /** The time window of both rate limits. */
  rateWindow: number;
  /** The maximum number of queued writes; further ones receive 503. */
  queueRows: number;
  /** The total size of queued writes, which bodies have already counted; further ones receive 503. */
  queueBytes: number;
  /** The maximum number of writes in a commit: more would make no write cheaper. */
  batchRows: number;
  /** The total size of the writes in one commit. */
  batchBytes: number;
}

export const defaultLimits: Limits = {
  drainTime: 0,
  shutdownTime: 20_000,
  bodyLimit: mebibyte,
  memoryBudget: 16 * mebibyte,
  requestTimeout: 30_000,
  keepAliveTimeout: 72_000,
  maxConnections: 10_000,
  maxEventLoopDelay: 1_000,
  ratePerSubject: 0,
  ratePerAddress: 0,
  poolSize: 10,
  databaseTimeout: 15_000,
  headerLimit: 16 * 1024,
  rateWindow: 60_000,
  queueRows: 20_000,
  queueBytes: 64 * mebibyte,
  batchRows: 1_000,
  batchBytes: 4 * mebibyte,
};

/** Limits of transactions, which are fixed. */
export const transactionLimits = {
  /** The maximum number of documents that one may read and write. */
  documents: 1_000,
  /** The maximum memory for what one has read and written, as an estimate in bytes. */
  bytes: 16 * mebibyte,
  /** The maximum memory for what all that run in a thread have read and written, likewise. */
  allBytes: 64 * mebibyte,
  /** The maximum time until the last commit of one begins. */
  time: 10_000,
  /** The maximum number of times that its function runs. */
  attempts: 100,
} as const;

/** Limits of the admin listener, which are fixed: probes and scrapes send few and small requests. */
export const adminLimits = {
  headerLimit: 16 * 1024,
  requestTimeout: 10_000,
  keepAliveTimeout: 72_000,
  maxConnections: 64,
};
