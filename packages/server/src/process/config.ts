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

/** Every variable: how it is read, and its default. docs/configuration.md describes each. */
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

/**
 * Reads the configuration.
 * @param environment - Such as process.env; an empty value counts as unset.
 * @throws ConfigError that names every invalid variable and its value.
 */
export function readConfig(environment: NodeJS.ProcessEnv, service: Pick<Service, 'databaseUrl'>): Config {
  const faults: string[] = [];
  const values: Partial<Record<Name, unknown>> = {};
  const limits = { ...defaultLimits };
  for (const name of Object.keys(variables) as Name[]) {
    const variable = variables[name];
    try {
      values[name] = valueOf(name, environment, service);
      if ('limit' in variable) limits[variable.limit] = Number(values[name]) * variable.factor;
    } catch (error) {
      faults.push(messageOf(error));
    }
  }
  for (const group of groups) {
    const missing = group.filter((name) => !environment[name]);
    if (missing.length === group.length) continue;
    for (const name of missing)
      faults.push(`${name} is required with ${group.filter((other) => other !== name).join(' and ')}`);
  }
  const { PORT: port, OPS_PORT: opsPort } = values;
  if (port && port === opsPort && values.HOST === values.OPS_HOST)
    faults.push('OPS_PORT must not be the same as PORT');
  faults.push(...misspelledVariables(environment));
  if (faults.length > 0) throw new ConfigError(faults.join('\n'));
  return { ...(values as Omit<Config, 'limits'>), limits };
}

/** The byte order mark, which some editors write at the beginning of a file, also of one of variables. */
const mark = '\ufeff';
const marked = 'begins with a byte order mark (BOM), which is invisible: save its file as UTF-8 without BOM';

/** @throws ConfigError if it is invalid. */
function valueOf(
  name: Name,
  environment: NodeJS.ProcessEnv,
  { databaseUrl: byService }: Pick<Service, 'databaseUrl'>,
) {
  const isStore = name === 'DATABASE_URL';
  // A service without a store may have a database of its own, which DATABASE_URL may name.
  if (isStore && byService === undefined) return noStore;
  // The default depends on the current folder.
  if (isStore && !environment[name] && environment['NODE_ENV'] === 'production')
    throw new ConfigError('DATABASE_URL is required with NODE_ENV=production');
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
