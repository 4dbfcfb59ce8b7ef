// The limits with their defaults. Times in ms, lengths in bytes. Variables set some of them (process/config.ts).

const mebibyte = 1024 * 1024;

/** The limits of a service. Each thread has them for itself. */
export const defaultLimits = {
  /** The time after SIGTERM to keep accepting connections. */
  drainTime: 0,
  /** The time for running requests to finish after that. */
  shutdownTime: 20_000,
  bodyLimit: mebibyte,
  /** The memory for all request bodies; lists and streams have twice as much. */
  memoryBudget: 16 * mebibyte,
  /** The maximum time for a request to arrive, and for a client to read a page of a list or a chunk of a stream. */
  requestTimeout: 30_000,
  keepAliveTimeout: 72_000,
  maxConnections: 10_000,
  /** The time that requests wait for the event loop, longer than which they are refused; 0 for none. */
  maxEventLoopDelay: 1_000,
  /** The requests of a subject in each minute; 0 for no limit. */
  ratePerSubject: 0,
  /** The requests of an address in each minute; 0 for no limit. */
  ratePerAddress: 0,
  /** The connections to PostgreSQL for reading. */
  poolSize: 10,
  /** The maximum time to wait for PostgreSQL. */
  databaseTimeout: 15_000,
  /** The length of a header section, without white space around values: that of Node.js. */
  headerLimit: 16 * 1024,
  /** The time window of both rate limits. */
  rateWindow: 60_000,
  /** The maximum number of queued writes; further ones receive 503. */
  queueRows: 20_000,
  /** The total size of queued writes, which bodies have already counted; further ones receive 503. */
  queueBytes: 64 * mebibyte,
  /** The maximum number of writes in a commit: more would make no write cheaper. */
  batchRows: 1_000,
  /** The total size of the writes in one commit. */
  batchBytes: 4 * mebibyte,
};

export type Limits = { [Name in keyof typeof defaultLimits]: number };

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
export const adminLimits = { ...defaultLimits, requestTimeout: 10_000, maxConnections: 64 };
