// The configuration: every environment variable of the service, with its default. All faults are reported at once.
import { closestMatch } from 'leven';
import { defaultLimits, type Limits } from '../base/limits.js';
import type { Service } from '../service/definition.js';
import { messageOf } from '../storage/core/interface.js';
import { noStore } from '../storage/no-store.js';
import {
  databaseUrl,
  flag,
  logLevels,
  networks,
  oneOf,
  origins,
  safeUrl,
  text,
  threads,
  wholeNumber,
} from './variable-types.js';

const port = wholeNumber(0, 65_535);
const bytes = wholeNumber(1_024, 2 ** 33);
/** 0 turns it off. */
const optional = wholeNumber(0, 1_000_000_000);

/** A variable that sets a limit. @param factor - The unit of the variable, in that of the limit. */
function limit(name: keyof Limits, read: (text: string) => number, factor = 1) {
  return { read, default: defaultLimits[name] / factor, limit: name, factor };
}

/** A limit in seconds. */
function seconds(name: keyof Limits, min = 1) {
  return limit(name, wholeNumber(min, 86_400), 1_000);
}

/** Every variable: how it is read, and its default. */
export const variables = {
  HOST: { read: text, default: '127.0.0.1' },
  PORT: { read: port, default: 3000 },
  OPS_HOST: { read: text, default: '127.0.0.1' },
  OPS_PORT: { read: port, default: undefined },
  WORKERS: { read: threads, default: 1 },
  DATABASE_URL: { read: databaseUrl, default: undefined },
  LOG_LEVEL: { read: oneOf(logLevels), default: 'info' },
  NODE_ENV: { read: oneOf(['production', 'development', 'test']), default: 'development' },
  OIDC_ISSUER: { read: safeUrl, default: undefined },
  OIDC_AUDIENCE: { read: text, default: undefined },
  OIDC_JWKS_URL: { read: safeUrl, default: undefined },
  OIDC_REQUIRE_AT_JWT: { read: flag, default: false },
  TRUST_PROXY: { read: networks, default: [] },
  CORS_ORIGINS: { read: origins, default: [] },
  TLS_CERT_FILE: { read: text, default: undefined },
  TLS_KEY_FILE: { read: text, default: undefined },
  DRAIN_SECONDS: seconds('drainTime', 0),
  SHUTDOWN_SECONDS: seconds('shutdownTime'),
  BODY_LIMIT_BYTES: limit('bodyLimit', bytes),
  MEMORY_BUDGET_BYTES: limit('memoryBudget', bytes),
  REQUEST_TIMEOUT_SECONDS: seconds('requestTimeout'),
  KEEP_ALIVE_SECONDS: seconds('keepAliveTimeout'),
  MAX_CONNECTIONS: limit('maxConnections', wholeNumber(1, 10_000_000)),
  MAX_EVENT_LOOP_DELAY_MS: limit('maxEventLoopDelay', optional),
  RATE_LIMIT_PER_SUBJECT: limit('ratePerSubject', optional),
  RATE_LIMIT_PER_ADDRESS: limit('ratePerAddress', optional),
  DATABASE_POOL_SIZE: limit('poolSize', wholeNumber(1, 1_000)),
  DATABASE_TIMEOUT_SECONDS: seconds('databaseTimeout'),
};

/** The descriptions of the variables, from which docs/configuration.md is generated. */
export const descriptions: Readonly<Record<Name, string>> = {
  HOST: 'Address to listen on; `0.0.0.0` or `::` for all interfaces',
  PORT: 'Port to listen on; 0 picks any free port',
  OPS_HOST: 'Address of the admin listener',
  OPS_PORT: 'Port of the admin listener (`/livez`, `/readyz`, `/metrics`); off unless set',
  WORKERS:
    'Number of threads that serve; more than 1 need Linux and Node.js 22.12 or later. Each thread has all limits for itself',
  DATABASE_URL: 'Where the data is stored: `file:PATH` or a path (SQLite), or `postgres://…`',
  LOG_LEVEL: `Minimum log level: ${logLevels.join(', ')}`,
  NODE_ENV:
    '`production`, `development` or `test`. In `production`, only the command `init` creates a store, `npm start` (`--dev`) creates no token, and SIGUSR1 does not open the debugger',
  OIDC_ISSUER:
    "Issuer; must match the tokens' `iss` exactly. Set all of `OIDC_ISSUER`, `OIDC_AUDIENCE` and `OIDC_JWKS_URL`, or none",
  OIDC_AUDIENCE: "Audience that the tokens' `aud` must equal or contain",
  OIDC_JWKS_URL: "URL of the provider's public keys (JWKS)",
  OIDC_REQUIRE_AT_JWT:
    '`true` accepts only tokens with the type `at+jwt` (RFC 9068); otherwise the type may also be `JWT`, or missing',
  TRUST_PROXY: 'Addresses and networks of proxies, comma-separated, whose `X-Forwarded-For` is trusted',
  CORS_ORIGINS: 'Origins, comma-separated, whose web pages may call the service; `*` allows all',
  TLS_CERT_FILE: 'PEM file with the certificate chain. Together with `TLS_KEY_FILE` it enables HTTPS',
  TLS_KEY_FILE: "PEM file with the certificate's private key",
  DRAIN_SECONDS: 'Time after SIGTERM to keep accepting connections',
  SHUTDOWN_SECONDS: 'Time for running requests to finish after `DRAIN_SECONDS`; then they are cut off',
  BODY_LIMIT_BYTES: 'Maximum length of a request body',
  MEMORY_BUDGET_BYTES:
    'Memory for all request bodies, each counted as two (bytes), three or six (not ASCII) times its size. Data of lists and streams that is read but not sent has twice this memory. Each thread has its own. Subjects share it fairly; all requests without a token count as one subject',
  REQUEST_TIMEOUT_SECONDS:
    'Maximum time to receive a whole request (then 408), and for a client to read one page of a list or one chunk of a stream (then it is disconnected)',
  KEEP_ALIVE_SECONDS: 'Maximum time that a connection may be idle',
  MAX_CONNECTIONS:
    'Maximum number of connections of each thread; further ones are closed immediately. Lowered if the limit of open files is too low',
  MAX_EVENT_LOOP_DELAY_MS:
    'Requests receive 503 if they have waited longer than this for the event loop, and so have those before them; 0 disables the check',
  RATE_LIMIT_PER_SUBJECT:
    'Maximum requests per subject in each minute and thread; further ones receive 429. 0 disables the limit',
  RATE_LIMIT_PER_ADDRESS:
    'Maximum requests, with or without a token, per IP address (IPv6: /64; 16 times as many per /48), minute and thread; further ones receive 429, beyond twice as many after a second. 0 disables the limit',
  DATABASE_POOL_SIZE:
    'PostgreSQL: connections of each thread for reading; each thread uses one more for writing, and up to four for transactions',
  DATABASE_TIMEOUT_SECONDS:
    'PostgreSQL: maximum time that a request, a page of a list, or an attempt of a change waits for the database',
};

type Variables = typeof variables;
type Name = keyof Variables;

/** Variables that make sense only together. */
const groups: readonly (readonly Name[])[] = [
  ['OIDC_ISSUER', 'OIDC_AUDIENCE', 'OIDC_JWKS_URL'],
  ['TLS_CERT_FILE', 'TLS_KEY_FILE'],
];

type ValueOf<Variable extends { read: (text: string) => unknown; default: unknown }> =
  ReturnType<Variable['read']> | (undefined extends Variable['default'] ? undefined : never);

/** The values of all variables, and the limits that they set. */
export type Config = {
  readonly [Each in Name]: Each extends 'DATABASE_URL' ? string : ValueOf<Variables[Each]>;
} & { readonly limits: Limits };

/** One or more variables are invalid; the message has one line for each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** An address cannot be listened on at the moment. */
export class AddressError extends ConfigError {}

/** The exit status of a process whose settings are wrong, so that a restart changes nothing: EX_CONFIG. */
export const configStatus = 78;

/** The default that depends on the service; without it, it has no store, and DATABASE_URL is not one of its variables. */
type Defaults = Pick<Service, 'databaseUrl'>;

/**
 * Reads the configuration.
 * @param environment - Such as process.env; an empty value counts as unset.
 * @throws ConfigError that names every invalid variable and its value.
 */
export function readConfig(environment: NodeJS.ProcessEnv, defaults: Defaults): Config {
  const faults: string[] = [];
  const read = (name: Name) => {
    try {
      return valueOf(name, environment, defaults);
    } catch (error) {
      faults.push(messageOf(error));
      return undefined;
    }
  };
  const names = Object.keys(variables) as Name[];
  const values = Object.fromEntries(names.map((name) => [name, read(name)])) as Omit<Config, 'limits'>;
  for (const group of groups) {
    const missing = group.filter((name) => !environment[name]);
    if (missing.length < group.length)
      faults.push(
        ...missing.map(
          (name) => `${name} is required with ${group.filter((other) => other !== name).join(' and ')}`,
        ),
      );
  }
  faults.push(...misspelledVariables(environment));
  if (faults.length > 0) throw new ConfigError(faults.join('\n'));
  const limits = { ...defaultLimits };
  for (const name of names) {
    const variable = variables[name];
    if ('limit' in variable) limits[variable.limit] = Number(values[name]) * variable.factor;
  }
  return { ...values, limits };
}

/** The byte order mark, which some editors write at the beginning of a file, also of one of variables. */
const mark = '\ufeff';
const marked = 'begins with a byte order mark (BOM), which is invisible: save its file as UTF-8 without BOM';

/** @throws ConfigError if it is invalid. */
function valueOf(name: Name, environment: NodeJS.ProcessEnv, { databaseUrl: byService }: Defaults) {
  const isStore = name === 'DATABASE_URL';
  // Without a store, DATABASE_URL may name a database of the service's own.
  if (isStore && byService === undefined) return noStore;
  const value = environment[name] || (isStore ? byService : undefined);
  const { read, default: byDefault } = variables[name];
  if (value === undefined) return byDefault;
  if (value.startsWith(mark)) throw new ConfigError(`${name} ${marked}`);
  try {
    return read(value);
  } catch (error) {
    // A database URL may contain a password.
    const shown = isStore ? '' : `, not ${JSON.stringify(value)}`;
    throw new ConfigError(`${name} ${messageOf(error)}${shown}`, { cause: error });
  }
}

/** Returns a fault for each variable that is probably misspelled: by one letter, the order of letters, the case, or a mark. */
function misspelledVariables(environment: NodeJS.ProcessEnv): string[] {
  const names = Object.keys(variables);
  const lettersOf = (name: string) => Array.from(name).sort().join('');
  return Object.keys(environment).flatMap((name) => {
    if (name.startsWith(mark)) return [`${name.slice(1)} ${marked}`];
    // PostgreSQL's programs and Kubernetes have such variables.
    if (names.includes(name) || /^PG|_(?:SERVICE|PORT)(?:_|$)/.test(name)) return [];
    const upper = name.toUpperCase();
    const meant =
      names.find((other) => lettersOf(other) === lettersOf(upper)) ??
      // Short names are similar by chance, as HOME and HOST.
      (name.length < 6 ? undefined : closestMatch(upper, names, { maxDistance: 1 }));
    if (meant === undefined) return [];
    return [`${name} is not a variable of the service: rename it to ${meant}, or remove it`];
  });
}
