// The configuration: every environment variable of the service, with its default, and how all are read and reported.
import { cleanEnv, type CleanedEnv } from 'envalid';
import { closestMatch } from 'leven';
import { defaultAddress, defaultLimits, defaultPostgres, defaultProcess, defaultWrites } from './defaults.js';
import type { Service } from './definition.js';
import {
  atLeastOneSecond,
  bytes,
  databaseUrl,
  flag,
  logLevel,
  logLevels,
  networks,
  origins,
  poolSize,
  port,
  positive,
  reserve,
  safeUrl,
  seconds,
  text,
  workers,
  zeroOrMore,
} from './variable-types.js';

/** Every variable: its type, its default and its description, from which docs/configuration.md is generated. */
export const variables = {
  HOST: text({
    default: defaultAddress.host,
    desc: 'Address to listen on; `0.0.0.0` or `::` for all interfaces',
  }),
  PORT: port({ default: defaultAddress.port, desc: 'Port to listen on; 0 picks any free port' }),
  OPS_HOST: text({ default: defaultAddress.host, desc: 'Address of the admin listener' }),
  OPS_PORT: port({
    default: undefined,
    desc: 'Port of the admin listener (`/livez`, `/readyz`, `/metrics`); off unless set',
  }),
  WORKERS: workers({
    default: defaultProcess.workers,
    desc: 'Number of worker processes; `auto` starts one per core, but no more than fit into the memory of the container. Limits on memory and on writes are divided among them; if one is too small for that, fewer are started',
  }),
  WORKER_TIMEOUT_SECONDS: seconds({
    default: defaultProcess.workerTimeout / 1000,
    desc: 'How long a worker may be unresponsive, or take to start (at least 10 more than `OPEN_TIMEOUT_SECONDS`), before it is killed and restarted, with twice the time to start if that took too long; 0 disables',
  }),
  OPEN_TIMEOUT_SECONDS: atLeastOneSecond({
    default: defaultProcess.openTimeout / 1000,
    desc: 'Maximum time for the service to open what it needs beside the store; a process that takes longer does not start',
  }),
  DATABASE_URL: databaseUrl({
    desc: 'Where the data is stored: `file:PATH` or a path (SQLite), or `postgres://…`',
  }),
  DATABASE_POOL_SIZE: poolSize({
    default: defaultPostgres.poolSize,
    desc: 'PostgreSQL: connections per process for reading; each process uses one more for writing',
  }),
  DATABASE_TIMEOUT_SECONDS: atLeastOneSecond({
    default: defaultPostgres.timeout / 1000,
    desc: 'PostgreSQL: maximum time that a request, or each page of a list, waits for the database; an unknown token may first wait 5 seconds, and each attempt of a change counts anew',
  }),
  DATABASE_PREPARED: flag({
    default: defaultPostgres.prepared,
    desc: 'PostgreSQL: whether to use prepared statements; behind a pooler that does not support them, such as PgBouncer before 1.21, the service warns once and stops using them',
  }),
  DATABASE_RESERVE_BYTES: reserve({
    default: undefined,
    desc: 'SQLite: free space on the disk of the store below which creates and replacements receive 503, so that everything else goes on; 64 MiB unless set, but then at most a tenth of the file system. 0 disables',
  }),
  LOG_LEVEL: logLevel({
    default: defaultProcess.logLevel,
    desc: `Minimum log level: ${logLevels.join(', ')}`,
  }),
  NODE_ENV: text({
    default: defaultProcess.nodeEnvironment,
    desc: '`production` prevents `npm start` (`--dev`) from creating a token',
  }),
  OIDC_ISSUER: safeUrl({
    default: undefined,
    desc: "Issuer; must match the tokens' `iss` exactly. Set all of `OIDC_ISSUER`, `OIDC_AUDIENCE` and `OIDC_JWKS_URL`, or none",
  }),
  OIDC_AUDIENCE: text({ default: undefined, desc: "Audience that the tokens' `aud` must equal or contain" }),
  OIDC_JWKS_URL: safeUrl({ default: undefined, desc: "URL of the provider's public keys (JWKS)" }),
  OIDC_REQUIRE_AT_JWT: flag({
    default: false,
    desc: '`true` accepts only tokens with the type `at+jwt` (RFC 9068); otherwise the type may also be `JWT`, or missing',
  }),
  BODY_LIMIT_BYTES: bytes({ default: defaultLimits.bodyLimit, desc: 'Maximum length of a request body' }),
  BODY_BUDGET_BYTES: bytes({
    default: defaultLimits.bodyBudget,
    desc: 'Memory for all request bodies, each counted as three or six times its size; shared fairly between subjects',
  }),
  LIST_BUDGET_BYTES: bytes({
    default: defaultLimits.listBudget,
    desc: 'Memory for all data of lists and streams that has been read but not yet sent; shared fairly between subjects',
  }),
  HEADER_LIMIT_BYTES: bytes({
    default: defaultLimits.headerLimit,
    desc: "Maximum size of a request's header section, not counting white space around values. The number of fields is limited to 1,000",
  }),
  REQUEST_TIMEOUT_SECONDS: atLeastOneSecond({
    default: defaultLimits.requestTimeout / 1000,
    desc: 'Maximum time to receive a whole request; then 408',
  }),
  KEEP_ALIVE_SECONDS: atLeastOneSecond({
    default: defaultLimits.keepAliveTimeout / 1000,
    desc: 'Maximum time that a connection may be idle',
  }),
  STALL_TIMEOUT_SECONDS: atLeastOneSecond({
    default: defaultLimits.stallTimeout / 1000,
    desc: 'Maximum time that a client may take to read one page of a list, or one chunk of a stream; slower clients are disconnected',
  }),
  MAX_CONNECTIONS: positive({
    default: defaultLimits.maxConnections,
    desc: 'Maximum number of connections; further ones are closed immediately. Reduced automatically if the open-file limit is too low',
  }),
  MAX_EVENT_LOOP_DELAY_MS: zeroOrMore({
    default: defaultProcess.maxEventLoopDelay,
    desc: 'Requests receive 503 for a second when the mean event-loop lag of the second before exceeds this; 0 disables the check',
  }),
  RATE_LIMIT_PER_SUBJECT: zeroOrMore({
    default: defaultLimits.rates.perSubject,
    desc: 'Maximum requests per subject in each time window; further ones receive 429. 0 disables the limit',
  }),
  RATE_LIMIT_PER_ADDRESS: zeroOrMore({
    default: defaultLimits.rates.perAddress,
    desc: 'Maximum requests per IP address (IPv6: per /64, and 16 times as many per /48) in each time window, even without a token; further ones receive 429. 0 disables the limit',
  }),
  RATE_LIMIT_WINDOW_SECONDS: atLeastOneSecond({
    default: defaultLimits.rates.window / 1000,
    desc: 'Length of the time window of both rate limits',
  }),
  TRUST_PROXY: networks({
    default: [],
    desc: 'Addresses and networks of proxies, comma-separated, whose `X-Forwarded-For` is trusted',
  }),
  CORS_ORIGINS: origins({
    default: [],
    desc: 'Origins, comma-separated, whose web pages may call the service; `*` allows all',
  }),
  COMPRESSION: flag({
    default: false,
    desc: '`true` compresses responses over 1 KiB for clients that accept it',
  }),
  SECURITY_HEADERS: flag({
    default: false,
    desc: "`true` adds Helmet's security headers to every response",
  }),
  TLS_CERT_FILE: text({
    default: undefined,
    desc: 'PEM file with the certificate chain. Together with `TLS_KEY_FILE` it enables HTTPS',
  }),
  TLS_KEY_FILE: text({ default: undefined, desc: "PEM file with the certificate's private key" }),
  WRITE_QUEUE_ROWS: positive({
    default: defaultWrites.queueRows,
    desc: 'Maximum number of queued writes; further ones receive 503',
  }),
  WRITE_QUEUE_BYTES: bytes({
    default: defaultWrites.queueBytes,
    desc: 'Maximum total size of queued writes; further ones receive 503',
  }),
  WRITE_BATCH_ROWS: positive({
    default: defaultWrites.batchRows,
    desc: 'Maximum number of writes in one commit',
  }),
  WRITE_BATCH_BYTES: bytes({
    default: defaultWrites.batchBytes,
    desc: 'Maximum total size of the writes in one commit',
  }),
  DRAIN_SECONDS: seconds({
    default: defaultProcess.drainTime / 1000,
    desc: 'Time after SIGTERM to keep accepting connections',
  }),
  SHUTDOWN_SECONDS: atLeastOneSecond({
    default: defaultProcess.shutdownTime / 1000,
    desc: 'Time for running requests to finish after `DRAIN_SECONDS`; then they are cut off',
  }),
};

/** Variables that make sense only together. */
const groups = [
  ['OIDC_ISSUER', 'OIDC_AUDIENCE', 'OIDC_JWKS_URL'],
  ['TLS_CERT_FILE', 'TLS_KEY_FILE'],
] as const;

/** The values of all variables. */
export type Config = Readonly<CleanedEnv<typeof variables>>;

/** One or more variables are invalid; the message has one line for each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** The defaults that depend on the service. */
type Defaults = Pick<Service, 'databaseUrl'>;

/**
 * Reads the configuration.
 * @param environment - Such as process.env; an empty value counts as unset.
 * @throws ConfigError that names every invalid variable and its value.
 */
export function readConfig(environment: NodeJS.ProcessEnv, defaults: Defaults): Config {
  const env = withDefaults(environment, defaults);
  const missing = groups.flatMap((group) => missingOf(group, env));
  return cleanEnv(env, variables, { reporter: reporterOf(env, missing) });
}

/**
 * Reads the one variable that the commands other than the server need.
 * @param environment - As for readConfig.
 * @throws ConfigError if it is invalid.
 */
export function readDatabaseUrl(environment: NodeJS.ProcessEnv, defaults: Defaults): string {
  const env = withDefaults(environment, defaults);
  const { DATABASE_URL } = variables;
  return cleanEnv(env, { DATABASE_URL }, { reporter: reporterOf(env) }).DATABASE_URL;
}

/**
 * Finds variables that are probably misspelled.
 * @param environment - As for readConfig.
 * @returns Each with the variable that was probably meant.
 */
export function misspelledVariables(environment: NodeJS.ProcessEnv): { name: string; meant: string }[] {
  const known = Object.keys(variables);
  return Object.keys(environment).flatMap((name) => {
    // Short names are similar by chance, as HOME and HOST; PGHOST and PGPORT are those of PostgreSQL's programs.
    if (name.length < 6 || name.startsWith('PG') || known.includes(name)) return [];
    const meant = closestMatch(name, known, { maxDistance: 2 });
    return meant === undefined ? [] : [{ name, meant }];
  });
}

function withDefaults(environment: NodeJS.ProcessEnv, { databaseUrl }: Defaults): NodeJS.ProcessEnv {
  const given = Object.entries(environment).filter(([, value]) => value !== '');
  return { DATABASE_URL: databaseUrl, ...Object.fromEntries(given) };
}

/**
 * Returns what reports all faults at once.
 * @param others - The faults that do not concern a single variable.
 */
function reporterOf(env: NodeJS.ProcessEnv, others: readonly string[] = []) {
  return ({ errors }: { errors: Partial<Record<string, Error>> }): void => {
    const faults = Object.entries(errors).map(([name, error]) => {
      // A database URL may contain a password.
      const value = name === 'DATABASE_URL' ? '' : `, not ${JSON.stringify(env[name])}`;
      return `${name} ${error?.message ?? 'is wrong'}${value}`;
    });
    faults.push(...others);
    if (faults.length > 0) throw new ConfigError(faults.join('\n'));
  };
}

/** Describes the variables of a group that are missing, if others of it are set. */
function missingOf(group: readonly string[], env: NodeJS.ProcessEnv): string[] {
  const missing = group.filter((name) => env[name] === undefined);
  if (missing.length === group.length) return [];
  return missing.map(
    (name) => `${name} is required with ${group.filter((other) => other !== name).join(' and ')}`,
  );
}
