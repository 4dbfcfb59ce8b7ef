// The defaults of the environment variables, apart from those that are empty or off, and fixed limits. Times in ms, lengths in bytes.

/** Where the service listens. */
export const defaultAddress = { host: '127.0.0.1', port: 3000 };

/** How the processes run and end. */
export const defaultProcess = {
  workers: 1,
  workerTimeout: 30_000,
  openTimeout: 20_000,
  logLevel: 'info',
  nodeEnvironment: 'development',
  maxEventLoopDelay: 1_000,
  drainTime: 0,
  shutdownTime: 20_000,
} as const;

/** Limits on the size, duration and rate of requests. */
export const defaultLimits = {
  bodyLimit: 1024 * 1024,
  bodyBudget: 16 * 1024 * 1024,
  listBudget: 32 * 1024 * 1024,
  headerLimit: 16 * 1024,
  requestTimeout: 30_000,
  keepAliveTimeout: 72_000,
  stallTimeout: 30_000,
  maxConnections: 10_000,
  rates: { perSubject: 0, perAddress: 0, window: 60_000 },
};

/** Limits of the queue of writes and of each batch. */
export const defaultWrites = {
  queueRows: 20_000,
  queueBytes: 64 * 1024 * 1024,
  batchRows: 1_000,
  batchBytes: 4 * 1024 * 1024,
};

/** Limits of transactions, which are fixed. `waiting` is how many may wait for their turn with one subject or document. */
export const defaultTransactions = {
  documents: 100,
  bytes: 16 * 1024 * 1024,
  time: 10_000,
  attempts: 100,
  waiting: 1_000,
} as const;

/** The connections to PostgreSQL. */
export const defaultPostgres = { poolSize: 10, timeout: 15_000, prepared: true };

/** Limits of the admin listener, which are fixed: probes and scrapes send few and small requests. */
export const adminLimits = {
  headerLimit: 16 * 1024,
  requestTimeout: 10_000,
  keepAliveTimeout: 72_000,
  stallTimeout: 10_000,
  maxConnections: 64,
};
