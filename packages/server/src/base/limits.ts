// Every limit, one row each: those that an operator can set, and those that are fixed. Times in ms, lengths in bytes.

/** How the value of a variable is written: a whole number in this range, times `factor`. */
const units = {
  bytes: { min: 1_024, max: 2 ** 33, factor: 1 },
  bytesOrOff: { min: 0, max: 2 ** 40, factor: 1 },
  seconds: { min: 1, max: 86_400, factor: 1_000 },
  secondsOrOff: { min: 0, max: 86_400, factor: 1_000 },
  number: { min: 1, max: 10_000_000, factor: 1 },
  numberOrOff: { min: 0, max: 1_000_000_000, factor: 1 },
  connections: { min: 1, max: 1_000, factor: 1 },
} as const;

/**
 * What a limit is for several threads:
 * - `sum`: it holds for all threads together; each gets a part, which is at least so much.
 * - `batch`: a limit on one commit, in which several batches of a thread may be; each gets a part, or so much if that is
 *   more.
 * - `whole`: it holds for all threads together, which count in memory that they share, unless a single one keeps it.
 * - `each`: it is about one request, connection or thread, or a time.
 */
export type Sharing = { readonly sum: number } | { readonly batch: number } | 'whole' | 'each';

/** A limit. */
interface Limit {
  /** The environment variable that sets it; undefined if no operator has a reason to. */
  readonly variable?: string;
  readonly unit: keyof typeof units;
  /** Undefined if it depends on the machine. */
  readonly default: number | undefined;
  readonly threads: Sharing;
  /** The file that holds to it. */
  readonly checkedIn: string;
  /** For docs/configuration.md. */
  readonly desc: string;
}

/** The table of limits, in the order of docs/configuration.md. */
export const limitTable = {
  workerTimeout: {
    variable: 'WORKER_TIMEOUT_SECONDS',
    unit: 'secondsOrOff',
    default: 30_000,
    threads: 'whole',
    checkedIn: 'process/threads/serving-threads.ts',
    desc: 'How long one of several threads may be unresponsive, or take to start (at least 10 more than `OPEN_TIMEOUT_SECONDS`), before the process ends; 0 disables',
  },
  openTimeout: {
    variable: 'OPEN_TIMEOUT_SECONDS',
    unit: 'seconds',
    default: 20_000,
    threads: 'each',
    checkedIn: 'service/opened-service.ts',
    desc: 'Maximum time for the service to open what it needs beside the store; a service that takes longer does not start',
  },
  drainTime: {
    variable: 'DRAIN_SECONDS',
    unit: 'secondsOrOff',
    default: 0,
    threads: 'each',
    checkedIn: 'http/connection/shutdown.ts',
    desc: 'Time after SIGTERM to keep accepting connections',
  },
  shutdownTime: {
    variable: 'SHUTDOWN_SECONDS',
    unit: 'seconds',
    default: 20_000,
    threads: 'each',
    checkedIn: 'http/connection/shutdown.ts',
    desc: 'Time for running requests to finish after `DRAIN_SECONDS`; then they are cut off',
  },
  bodyLimit: {
    variable: 'BODY_LIMIT_BYTES',
    unit: 'bytes',
    default: 1024 * 1024,
    threads: 'each',
    checkedIn: 'http/request/body.ts',
    desc: 'Maximum length of a request body',
  },
  bodyBudget: {
    variable: 'BODY_BUDGET_BYTES',
    unit: 'bytes',
    default: 16 * 1024 * 1024,
    threads: { sum: 1_024 },
    checkedIn: 'http/admission/memory-budget.ts',
    desc: 'Memory for all request bodies, each counted as three or six times its size. Subjects share it fairly; all requests without a token count as one subject',
  },
  listBudget: {
    variable: 'LIST_BUDGET_BYTES',
    unit: 'bytes',
    default: 32 * 1024 * 1024,
    threads: { sum: 1_024 },
    checkedIn: 'http/admission/memory-budget.ts',
    desc: 'Memory for all data of lists and streams that has been read but not yet sent. Subjects share it fairly; all requests without a token count as one subject',
  },
  headerLimit: {
    unit: 'bytes',
    default: 16 * 1024,
    threads: 'each',
    checkedIn: 'http/connection/host-and-expect.ts',
    desc: "Maximum size of a request's header section, not counting white space around values: that of Node.js. The number of fields is limited to 1,000",
  },
  requestTimeout: {
    variable: 'REQUEST_TIMEOUT_SECONDS',
    unit: 'seconds',
    default: 30_000,
    threads: 'each',
    checkedIn: 'http/connection/server.ts',
    desc: 'Maximum time to receive a whole request; then 408',
  },
  keepAliveTimeout: {
    variable: 'KEEP_ALIVE_SECONDS',
    unit: 'seconds',
    default: 72_000,
    threads: 'each',
    checkedIn: 'http/connection/server.ts',
    desc: 'Maximum time that a connection may be idle',
  },
  stallTimeout: {
    variable: 'STALL_TIMEOUT_SECONDS',
    unit: 'seconds',
    default: 30_000,
    threads: 'each',
    checkedIn: 'http/response/paced-stream.ts',
    desc: 'Maximum time that a client may take to read one page of a list, or one chunk of a stream; slower clients are disconnected',
  },
  maxConnections: {
    variable: 'MAX_CONNECTIONS',
    unit: 'number',
    default: 10_000,
    threads: 'whole',
    checkedIn: 'http/connection/shared-connections.ts',
    desc: 'Maximum number of connections; further ones are closed immediately. Reduced automatically if the open-file limit is too low',
  },
  maxEventLoopDelay: {
    variable: 'MAX_EVENT_LOOP_DELAY_MS',
    unit: 'numberOrOff',
    default: 1_000,
    threads: 'each',
    checkedIn: 'http/admission/load-shedding.ts',
    desc: 'Requests receive 503 for a second when the mean event-loop lag of the second before exceeds this; 0 disables the check',
  },
  ratePerSubject: {
    variable: 'RATE_LIMIT_PER_SUBJECT',
    unit: 'numberOrOff',
    default: 0,
    threads: 'each',
    checkedIn: 'http/admission/rate-limit.ts',
    desc: 'Maximum requests per subject in each minute; further ones receive 429. 0 disables the limit',
  },
  ratePerAddress: {
    variable: 'RATE_LIMIT_PER_ADDRESS',
    unit: 'numberOrOff',
    default: 0,
    threads: 'each',
    checkedIn: 'http/admission/rate-limit.ts',
    desc: 'Maximum requests per IP address (IPv6: per /64, and 16 times as many per /48) in each minute, even without a token; further ones receive 429. 0 disables the limit',
  },
  rateWindow: {
    unit: 'seconds',
    default: 60_000,
    threads: 'each',
    checkedIn: 'http/admission/rate-limit.ts',
    desc: 'Length of the time window of both rate limits',
  },
  queueRows: {
    variable: 'WRITE_QUEUE_ROWS',
    unit: 'number',
    default: 20_000,
    threads: { sum: 1 },
    checkedIn: 'storage/core/group-commit.ts',
    desc: 'Maximum number of queued writes; further ones receive 503',
  },
  queueBytes: {
    unit: 'bytes',
    default: 64 * 1024 * 1024,
    threads: { sum: 1_024 },
    checkedIn: 'storage/core/group-commit.ts',
    desc: 'Maximum total size of queued writes, which bodies have already counted; further ones receive 503',
  },
  batchRows: {
    unit: 'number',
    default: 1_000,
    threads: { batch: 1 },
    checkedIn: 'storage/core/group-commit.ts',
    desc: 'Maximum number of writes in one commit: more would make no write cheaper',
  },
  batchBytes: {
    unit: 'bytes',
    default: 4 * 1024 * 1024,
    threads: { batch: 1_024 },
    checkedIn: 'storage/core/group-commit.ts',
    desc: 'Maximum total size of the writes in one commit',
  },
  reserve: {
    variable: 'DATABASE_RESERVE_BYTES',
    unit: 'bytesOrOff',
    default: undefined,
    threads: 'whole',
    checkedIn: 'storage/sqlite/file/free-space.ts',
    desc: 'SQLite: free space on the disk of the store below which creates and replacements receive 503, so that everything else goes on; by default 64 MiB, but at most a tenth of the file system. 0 disables',
  },
  poolSize: {
    variable: 'DATABASE_POOL_SIZE',
    unit: 'connections',
    default: 10,
    threads: 'each',
    checkedIn: 'storage/postgres/connection/connections.ts',
    desc: 'PostgreSQL: connections of each thread for reading; each thread uses one more for writing',
  },
  databaseTimeout: {
    variable: 'DATABASE_TIMEOUT_SECONDS',
    unit: 'seconds',
    default: 15_000,
    threads: 'each',
    checkedIn: 'storage/postgres/connection/time-limits.ts',
    desc: 'PostgreSQL: maximum time that a request, or each page of a list, waits for the database; an unknown token may first wait 5 seconds, and each attempt of a change counts anew',
  },
} as const satisfies Record<string, Limit>;

type Table = typeof limitTable;
export type LimitName = keyof Table;
type ValueOf<Name extends LimitName> = Table[Name]['default'] extends number ? number : number | undefined;

/** A value of each limit. */
export type Limits = { -readonly [Name in LimitName]: ValueOf<Name> };

/** The types of the variables that set the limits. */
export type LimitVariables = {
  readonly [
    Name in LimitName as Table[Name] extends { variable: infer Variable extends string } ? Variable : never
  ]: ValueOf<Name>;
};

/** The limits by their names, with the range of their variables. */
export const limitRows = (Object.entries(limitTable) as [LimitName, Limit][]).map(([name, limit]) => ({
  name,
  ...limit,
  ...units[limit.unit],
  variable: limit.variable as keyof LimitVariables | undefined,
}));

/** The values by default. */
export const defaultLimits = limitsOf((row) => row.default);

/** All limits; variables set some of them. */
export function configuredLimits(variables: LimitVariables): Limits {
  return limitsOf(({ variable, factor, default: fixed }) => {
    if (variable === undefined) return fixed;
    const value = variables[variable];
    return value === undefined ? undefined : value * factor;
  });
}

function limitsOf(valueOf: (row: (typeof limitRows)[number]) => number | undefined): Limits {
  return Object.fromEntries(limitRows.map((row) => [row.name, valueOf(row)])) as unknown as Limits;
}

/**
 * Limits of transactions, which are fixed. `waiting` is how many may wait for their turn with one subject or document, and
 * `turn` how long they wait for one that hangs.
 */
export const transactionLimits = {
  documents: 100,
  bytes: 16 * 1024 * 1024,
  time: 10_000,
  turn: 1_000,
  attempts: 100,
  waiting: 1_000,
} as const;

/** Limits of the admin listener, which are fixed: probes and scrapes send few and small requests. */
export const adminLimits = {
  headerLimit: 16 * 1024,
  requestTimeout: 10_000,
  keepAliveTimeout: 72_000,
  stallTimeout: 10_000,
  maxConnections: 64,
};
