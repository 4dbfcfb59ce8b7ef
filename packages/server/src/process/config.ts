// The configuration: reads every environment variable of the service, with its default, and reports all faults at once.
import { cleanEnv, type CleanedEnv, type ValidatorSpec } from 'envalid';
import { closestMatch } from 'leven';
import type { Service } from '../service/definition.js';
import { noStore } from '../storage/no-store.js';
import { configuredLimits, limitRows, type Limits, type LimitVariables } from '../base/limits.js';
import {
  databaseUrl,
  flag,
  integer,
  logLevel,
  logLevels,
  networks,
  origins,
  place,
  port,
  safeUrl,
  text,
  threads,
} from './variable-types.js';

/** The address on which the service listens by default. */
export const defaultAddress = { host: '127.0.0.1', port: 3000 };

/** The variables of `limitTable`. */
const limitVariables = Object.fromEntries(
  limitRows.map(({ variable, min, max, factor, default: value, desc }) => [
    variable,
    integer(min, max)({ default: value / factor, desc }),
  ]),
) as { [Name in keyof LimitVariables]: ValidatorSpec<LimitVariables[Name]> };

/** Every variable: its type, its default and its description, from which docs/configuration.md is generated. */
export const variables = {
  HOST: place({
    default: defaultAddress.host,
    desc: 'Address to listen on; `0.0.0.0` or `::` for all interfaces',
  }),
  PORT: port({ default: defaultAddress.port, desc: 'Port to listen on; 0 picks any free port' }),
  OPS_HOST: place({ default: defaultAddress.host, desc: 'Address of the admin listener' }),
  OPS_PORT: port({
    default: undefined,
    desc: 'Port of the admin listener (`/livez`, `/readyz`, `/metrics`); off unless set',
  }),
  WORKERS: threads({
    default: 1,
    desc: 'Number of threads that serve; more than 1 need Linux and Node.js 22.12 or later. `auto` starts one per core, but no more than fit into the memory of the container, and 1 where several are not possible. Each thread has the limits on memory and on queued writes for itself',
  }),
  DATABASE_URL: databaseUrl({
    desc: 'Where the data is stored: `file:PATH` or a path (SQLite), or `postgres://…`',
  }),
  LOG_LEVEL: logLevel({
    default: 'info',
    desc: `Minimum log level: ${logLevels.join(', ')}`,
  }),
  NODE_ENV: text({
    default: 'development',
    desc: 'In `production`, only the command `init` creates a store, and `npm start` (`--dev`) creates no token',
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
  TRUST_PROXY: networks({
    default: [],
    desc: 'Addresses and networks of proxies, comma-separated, whose `X-Forwarded-For` is trusted, in which at most 16 entries are looked at',
  }),
  CORS_ORIGINS: origins({
    default: [],
    desc: 'Origins, comma-separated, whose web pages may call the service; `*` allows all',
  }),
  TLS_CERT_FILE: place({
    default: undefined,
    desc: 'PEM file with the certificate chain. Together with `TLS_KEY_FILE` it enables HTTPS',
  }),
  TLS_KEY_FILE: place({ default: undefined, desc: "PEM file with the certificate's private key" }),
  ...limitVariables,
};

/** Variables that make sense only together. */
const groups = [
  ['OIDC_ISSUER', 'OIDC_AUDIENCE', 'OIDC_JWKS_URL'],
  ['TLS_CERT_FILE', 'TLS_KEY_FILE'],
] as const;

/** The values of all variables, and the limits that they set. */
export type Config = Readonly<CleanedEnv<typeof variables>> & { readonly limits: Limits };

/** One or more variables are invalid; the message has one line for each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** An address cannot be listened on at the moment. */
export class AddressError extends ConfigError {}

/** The exit status of a process whose settings are wrong, so that a restart changes nothing: EX_CONFIG. */
export const configStatus = 78;

/** The defaults that depend on the service; without a URL, it has no store, and DATABASE_URL is not one of its variables. */
type Defaults = Pick<Service, 'databaseUrl'>;

/**
 * Reads the configuration.
 * @param environment - Such as process.env; an empty value counts as unset.
 * @throws ConfigError that names every invalid variable and its value.
 */
export function readConfig(environment: NodeJS.ProcessEnv, defaults: Defaults): Config {
  const env = withDefaults(environment, defaults);
  const others = groups.flatMap((group) => missingOf(group, env));
  if (env['NODE_ENV'] === 'production')
    others.push(
      ...misspelledVariables(environment).flatMap(({ name, meant, isCertain }) =>
        isCertain ? [`${name} is not a variable of the service: rename it to ${meant}, or remove it`] : [],
      ),
    );
  const values = cleanEnv(env, variablesOf(defaults), { reporter: reporterOf(env, others) });
  return { ...values, limits: configuredLimits(values) };
}

/**
 * Reads the one variable that the commands other than the server need.
 * @param environment - As for readConfig.
 * @throws ConfigError if it is invalid.
 */
export function readDatabaseUrl(environment: NodeJS.ProcessEnv, defaults: Defaults): string {
  const env = withDefaults(environment, defaults);
  const { DATABASE_URL } = variablesOf(defaults);
  return cleanEnv(env, { DATABASE_URL }, { reporter: reporterOf(env) }).DATABASE_URL;
}

/** Names that other programs have for variables of the service. */
const otherNames: Readonly<Record<string, keyof typeof variables>> = {
  TLS_CERT: 'TLS_CERT_FILE',
  TLS_KEY: 'TLS_KEY_FILE',
  RATE_LIMIT: 'RATE_LIMIT_PER_SUBJECT',
};

/**
 * Finds variables that are probably misspelled.
 * @param environment - As for readConfig.
 * @returns Each with the variable that was probably meant, and whether that is certain: it has another name elsewhere, other
 *   letters are in upper case, or one letter is wrong, missing, added or in another place.
 */
export function misspelledVariables(
  environment: NodeJS.ProcessEnv,
): { name: string; meant: string; isCertain: boolean }[] {
  const known = Object.keys(variables);
  const letters = (name: string) => Array.from(name).sort().join('');
  return Object.entries(environment).flatMap(([name, value = '']) => {
    // Short names are similar by chance, as HOME and HOST; PGHOST and PGPORT are those of PostgreSQL's programs. Kubernetes
    // sets variables for each service.
    if (name.startsWith('PG') || known.includes(name)) return [];
    if (/_(?:SERVICE|PORT)(?:_|$)/.test(name) || value.startsWith('tcp://')) return [];
    const upper = name.toUpperCase();
    const alias = otherNames[upper] ?? known.find((one) => one === upper && one.length >= 6);
    if (alias !== undefined) return [{ name, meant: alias, isCertain: true }];
    const meant =
      name.length < 6
        ? known.find((one) => letters(one) === letters(name))
        : closestMatch(name, known, { maxDistance: 2 });
    if (meant === undefined) return [];
    const isCertain =
      closestMatch(name, [meant], { maxDistance: 1 }) !== undefined || letters(name) === letters(meant);
    return [{ name, meant, isCertain }];
  });
}

function withDefaults(environment: NodeJS.ProcessEnv, { databaseUrl }: Defaults): NodeJS.ProcessEnv {
  const given = Object.entries(environment).filter(([, value]) => value !== '');
  const env: NodeJS.ProcessEnv = { DATABASE_URL: databaseUrl, ...Object.fromEntries(given) };
  // Without a store, DATABASE_URL may name a database of the service's own.
  if (databaseUrl === undefined) delete env['DATABASE_URL'];
  return env;
}

function variablesOf({ databaseUrl: url }: Defaults): typeof variables {
  return url === undefined ? { ...variables, DATABASE_URL: text({ default: noStore }) } : variables;
}

/**
 * Returns the reporter for envalid that reports all faults at once.
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
