// Every limit: those that an operator can set, one row each, and those that are fixed. Times in ms, lengths in bytes.

/** The units of variables: a value is a whole number in this range, times `factor`. */
const units = {
  bytes: { min: 1_024, max: 2 ** 33, factor: 1 },
  seconds: { min: 1, max: 86_400, factor: 1_000 },
  secondsOrOff: { min: 0, max: 86_400, factor: 1_000 },
  number: { min: 1, max: 10_000_000, factor: 1 },
  numberOrOff: { min: 0, max: 1_000_000_000, factor: 1 },
  connections: { min: 1, max: 1_000, factor: 1 },
} as const;

/** A limit that an operator can set. */
interface Limit {
  /** The environment variable that sets it. */
  readonly variable: string;
  readonly unit: keyof typeof units;
  readonly default: number;
  /** For docs/configuration.md. */
  readonly desc: string;
}

/** The table of limits, in the order of docs/configuration.md. */
export const limitTable = {
  drainTime: {
    variable: 'DRAIN_SECONDS',
    unit: 'secondsOrOff',
    default: 0,
    desc: 'Time after SIGTERM to keep accepting connections',
  },
  shutdownTime: {
    variable: 'SHUTDOWN_SECONDS',
    unit: 'seconds',
    default: 20_000,
    desc: 'Time for running requests to finish after `DRAIN_SECONDS`; then they are cut off',
  },
  bodyLimit: {
    variable: 'BODY_LIMIT_BYTES',
    unit: 'bytes',
    default: 1024 * 1024,
    desc: 'Maximum length of a request body',
  },
  memoryBudget: {
    variable: 'MEMORY_BUDGET_BYTES',
    unit: 'bytes',
    default: 16 * 1024 * 1024,
    desc: 'Memory for all request bodies, each counted as two, three or six times its size. Data of lists and streams that is read but not sent has twice this memory. Each thread has its own. Subjects share it fairly; all requests without a token count as one subject',
  },
  requestTimeout: {
    variable: 'REQUEST_TIMEOUT_SECONDS',
    unit: 'seconds',
    default: 30_000,
    desc: 'Maximum time to receive a whole request (then 408), and for a client to read one page of a list or one chunk of a stream (then it is disconnected)',
  },
  keepAliveTimeout: {
    variable: 'KEEP_ALIVE_SECONDS',
    unit: 'seconds',
    default: 72_000,
    desc: 'Maximum time that a connection may be idle',
  },
  maxConnections: {
    variable: 'MAX_CONNECTIONS',
    unit: 'number',
    default: 10_000,
    desc: 'Maximum number of connections; further ones are closed immediately. Reduced automatically if the open-file limit is too low',
  },
  maxEventLoopDelay: {
    variable: 'MAX_EVENT_LOOP_DELAY_MS',
    unit: 'numberOrOff',
    default: 1_000,
    desc: 'Requests receive 503 for a second when the mean event-loop lag of the second before exceeds this; 0 disables the check',
  },
  ratePerSubject: {
    variable: 'RATE_LIMIT_PER_SUBJECT',
    unit: 'numberOrOff',
    default: 0,
    desc: 'Maximum requests per subject in each minute and thread; further ones receive 429. 0 disables the limit',
  },
  ratePerAddress: {
    variable: 'RATE_LIMIT_PER_ADDRESS',
    unit: 'numberOrOff',
    default: 0,
    desc: 'Maximum requests, with or without a token, per IP address (IPv6: /64; 16 times as many per /48), minute and thread; further ones receive 429. 0 disables the limit',
  },
  poolSize: {
    variable: 'DATABASE_POOL_SIZE',
    unit: 'connections',
    default: 10,
    desc: 'PostgreSQL: connections of each thread for reading; each thread uses one more for writing, and up to four for transactions',
  },
  databaseTimeout: {
    variable: 'DATABASE_TIMEOUT_SECONDS',
    unit: 'seconds',
    default: 15_000,
    desc: 'PostgreSQL: maximum time that a request, a page of a list, or an attempt of a change waits for the database; an unknown token may first wait 5 seconds',
  },
} as const satisfies Record<string, Limit>;

/** Limits that no operator has a reason to change. */
const fixedLimits = {
  /** The length of a header section, without white space around values: that of Node.js. */
  headerLimit: 16 * 1024,
  /** The time window of both rate limits. */
  rateWindow: 60_000,
  /** The maximum number of queued writes; further ones receive 503. */
  queueRows: 20_000,
  /** The total size of queued writes, which bodies have already counted; further ones receive 503. */
  queueBytes: 64 * 1024 * 1024,
  /** The maximum number of writes in a commit: more would make no write cheaper. */
  batchRows: 1_000,
  /** The total size of the writes in one commit. */
  batchBytes: 4 * 1024 * 1024,
};

type LimitTable = typeof limitTable;
/** A value of each limit. */
export type Limits = { -readonly [Name in keyof LimitTable]: number } & typeof fixedLimits;

/** The types of the variables that set the limits. */
export type LimitVariables = {
  readonly [Name in keyof LimitTable as LimitTable[Name]['variable']]: number;
};

/** The limits that can be set by their names, with the range of their variables. */
export const limitRows = (Object.entries(limitTable) as [keyof LimitTable, Limit][]).map(([name, limit]) => ({
  name,
  ...limit,
  ...units[limit.unit],
  variable: limit.variable as keyof LimitVariables,
}));

/** The values by default. */
export const defaultLimits = configuredLimits({});

/** All limits; variables set some of them. */
export function configuredLimits(variables: Partial<LimitVariables>): Limits {
  const set = limitRows.map(({ name, variable, factor, default: byDefault }) => {
    const value = variables[variable];
    return [name, value === undefined ? byDefault : value * factor];
  });
  return { ...fixedLimits, ...(Object.fromEntries(set) as object) } as Limits;
}

/** Limits of transactions, which are fixed. */
export const transactionLimits = {
  /** The maximum number of documents that one may read and write. */
  documents: 1_000,
  /** The maximum memory for what one has read and written, as an estimate in bytes. */
  bytes: 16 * 1024 * 1024,
  /** The maximum time until the last commit of one begins. */
  time: 10_000,
  /** The maximum number of times that its function runs. */
  attempts: 100,
  /** The maximum number that wait for their turn with one subject. */
  waiting: 1_000,
} as const;

/** Limits of the admin listener, which are fixed: probes and scrapes send few and small requests. */
export const adminLimits = {
  headerLimit: 16 * 1024,
  requestTimeout: 10_000,
  keepAliveTimeout: 72_000,
  maxConnections: 64,
};
