// The configuration: every environment variable that the service knows, checked all at once.
import { isIP } from 'node:net';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { cleanEnv, EnvError, makeExactValidator, type CleanedEnv } from 'envalid';
import { closestMatch } from 'leven';

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

function integer(min: number, max: number) {
  return makeExactValidator<number>((text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
    if (value >= min && value <= max) return value;
    throw new EnvError(`must be a whole number from ${min} to ${max}`);
  });
}

const port = integer(0, 65_535);
const seconds = integer(0, 86_400);
const atLeastOneSecond = integer(1, 86_400);
const connections = integer(1, 1_000);
const count = integer(0, 1_000_000_000);
const rows = integer(1, 10_000_000);
const bytes = integer(1_024, 2 ** 33);

const workers = makeExactValidator<number>((value) => {
  if (value === 'auto') return availableParallelism();
  if (/^[1-9]\d{0,2}$/.test(value)) return Number(value);
  throw new EnvError('must be a whole number from 1 to 999, or auto');
});

const text = makeExactValidator<string>((value) => value);
const logLevel = makeExactValidator<(typeof logLevels)[number]>((value) => {
  const level = logLevels.find((known) => known === value);
  if (level !== undefined) return level;
  throw new EnvError(`must be one of ${logLevels.join(', ')}`);
});
const flag = makeExactValidator<boolean>((value) => {
  if (value === 'true' || value === 'false') return value === 'true';
  throw new EnvError('must be true or false');
});

/** A list, its items separated by commas; empty for none. */
function list(rule: string, accepts: (item: string) => boolean) {
  return makeExactValidator<readonly string[]>((value) => {
    const items = value
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '');
    if (items.every(accepts)) return items;
    throw new EnvError(`must be a list of ${rule}, separated by commas`);
  });
}
const origins = list('origins like https://example.org (or *)', (item) => {
  return item === '*' || (URL.canParse(item) && new URL(item).origin === item);
});
const networks = list('addresses and networks like 10.0.0.0/8', (item) => {
  const [, address = '', prefix = '1'] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(item) ?? [];
  const longest = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0;
  // A network of everybody (/0) is none: everybody could claim any address.
  return Number(prefix) >= 1 && Number(prefix) <= longest;
});
const databaseUrl = makeExactValidator<string>((value) => {
  if (!/^(file:.|postgres(ql)?:\/\/.)/.test(value)) throw new EnvError('must be file:PATH or postgres://…');
  if (value.startsWith('file:~'))
    throw new EnvError('must not start with ~: write the whole path of the file');
  if (/^file:.*[?#]/.test(value)) throw new EnvError('must be file:PATH, without parameters');
  if (value.startsWith('file::'))
    throw new EnvError('must name a file: a store in memory would not be durable');
  try {
    if (value.startsWith('file://')) fileURLToPath(value);
  } catch (error) {
    throw new EnvError(`must be a file URL of this machine: ${(error as Error).message}`);
  }
  return value;
});

const safeUrl = makeExactValidator<string>((value) => {
  const { protocol, hostname } = URL.canParse(value) ? new URL(value) : {};
  const loopback = ['127.0.0.1', '[::1]', 'localhost'].includes(hostname ?? '');
  // The URL parser would drop line breaks and turn spaces into escapes.
  if (/^[!-~]+$/.test(value) && (protocol === 'https:' || (protocol === 'http:' && loopback))) return value;
  throw new EnvError('must be an https URL (http on a loopback address only)');
});

/** Every variable: what it may be, its default, and what it is for. The README's table tells the same. */
export const variables = {
  HOST: text({ default: '127.0.0.1', desc: 'The address to listen on; `0.0.0.0` or `::` for all' }),
  PORT: port({ default: 3000, desc: 'The port to listen on; 0 for any free one' }),
  OPS_HOST: text({ default: '127.0.0.1', desc: 'The address of the operations listener' }),
  OPS_PORT: port({
    default: undefined,
    desc: 'The port of the operations listener (`/livez`, `/readyz`, `/metrics`); off unless set',
  }),
  WORKERS: workers({
    default: 1,
    desc: 'How many processes answer; `auto` for one on each core. What is bounded is divided among them',
  }),
  DATABASE_URL: databaseUrl({
    default: 'file:./data/plants.db',
    desc: 'Where the plants are kept: `file:PATH`, or `postgres://…`',
  }),
  DATABASE_POOL_SIZE: connections({
    default: 10,
    desc: 'PostgreSQL: how many connections of each process read; one more writes',
  }),
  DATABASE_TIMEOUT_SECONDS: atLeastOneSecond({
    default: 15,
    desc: 'PostgreSQL: the longest that a request waits for the database; a list, for each of its pages',
  }),
  DATABASE_PREPARED: flag({
    default: false,
    desc: 'PostgreSQL: `true` prepares statements. Not behind a pooler that does not know them, such as PgBouncer before 1.21',
  }),
  LOG_LEVEL: logLevel({ default: 'info', desc: `The least level to log: ${logLevels.join(', ')}` }),
  NODE_ENV: text({ default: 'development', desc: '`production` keeps `--dev` from making a token' }),
  OIDC_ISSUER: safeUrl({
    default: undefined,
    desc: "An identity provider's issuer: the `iss` of its tokens, to the letter. All three `OIDC_` variables, or none",
  }),
  OIDC_AUDIENCE: text({ default: undefined, desc: 'The `aud` that its tokens must have' }),
  OIDC_JWKS_URL: safeUrl({ default: undefined, desc: 'Where it publishes its keys' }),
  BODY_LIMIT_BYTES: bytes({ default: 1_048_576, desc: 'The longest body of a request' }),
  BODY_BUDGET_BYTES: bytes({
    default: 16_777_216,
    desc: 'How much memory all bodies may take together, three to six times their length; shared fairly between subjects',
  }),
  LIST_BUDGET_BYTES: bytes({
    default: 33_554_432,
    desc: 'How much of all lists together may be read and not yet sent; shared fairly between subjects',
  }),
  HEADER_LIMIT_BYTES: bytes({
    default: 16_384,
    desc: 'The longest header section of a request, without white space around values; it may have 1,000 fields',
  }),
  REQUEST_TIMEOUT_SECONDS: atLeastOneSecond({ default: 30, desc: 'How long a request may take to arrive' }),
  KEEP_ALIVE_SECONDS: atLeastOneSecond({ default: 72, desc: 'How long a connection may be idle' }),
  STALL_TIMEOUT_SECONDS: atLeastOneSecond({
    default: 30,
    desc: 'How long a reader may take for one page of a list before it is cut off',
  }),
  MAX_CONNECTIONS: rows({
    default: 10_000,
    desc: 'How many connections there may be; more are closed at once. Lowered to what the limit of open files has room for',
  }),
  MAX_EVENT_LOOP_DELAY_MS: count({
    default: 1_000,
    desc: 'The mean lag of the event loop in a second beyond which requests are answered 503; 0 for any',
  }),
  RATE_LIMIT_PER_SUBJECT: count({
    default: 0,
    desc: 'How many requests a subject may make in a window; more are answered 429; 0 for any number',
  }),
  RATE_LIMIT_PER_ADDRESS: count({
    default: 0,
    desc: 'How many requests an address (IPv6: a /64 network) may make in a window, with or without a token; 0 for any number',
  }),
  RATE_LIMIT_WINDOW_SECONDS: atLeastOneSecond({ default: 60, desc: 'The length of that window' }),
  TRUST_PROXY: networks({
    default: [],
    desc: 'The addresses and networks of proxies, separated by commas, whose `X-Forwarded-For` is believed',
  }),
  CORS_ORIGINS: origins({
    default: [],
    desc: 'The origins, separated by commas, whose pages may use the service; `*` for all',
  }),
  COMPRESSION: flag({
    default: false,
    desc: '`true` compresses answers over 1 KiB for clients that accept it',
  }),
  SECURITY_HEADERS: flag({
    default: false,
    desc: "`true` adds Helmet's security headers to every answer",
  }),
  TLS_CERT_FILE: text({
    default: undefined,
    desc: 'The certificate chain, in PEM: with it and its key the service speaks HTTPS',
  }),
  TLS_KEY_FILE: text({ default: undefined, desc: "The certificate's private key, in PEM" }),
  WRITE_QUEUE_ROWS: rows({ default: 20_000, desc: 'How many writes may wait; more are answered 503' }),
  WRITE_QUEUE_BYTES: bytes({
    default: 67_108_864,
    desc: 'How much text waiting writes may hold; more is answered 503',
  }),
  WRITE_BATCH_ROWS: rows({ default: 1_000, desc: 'The most writes in one commit' }),
  WRITE_BATCH_BYTES: bytes({ default: 4_194_304, desc: 'The most text in one commit' }),
  DRAIN_SECONDS: seconds({
    default: 0,
    desc: 'How long to go on serving after SIGTERM, with `Connection: close`',
  }),
  SHUTDOWN_SECONDS: atLeastOneSecond({ default: 20, desc: 'How long running requests may take after that' }),
};

/** Variables that make sense only together. */
const groups = [
  ['OIDC_ISSUER', 'OIDC_AUDIENCE', 'OIDC_JWKS_URL'],
  ['TLS_CERT_FILE', 'TLS_KEY_FILE'],
] as const;

/** The values of all variables. */
export type Config = Readonly<CleanedEnv<typeof variables>>;

/** One or more variables are wrong; the message names them all, a line each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/**
 * Reads the configuration.
 * @param environment - As of process.env; an empty value counts as none.
 * @throws ConfigError naming every variable that is wrong, and its value.
 */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const env = withoutEmpty(environment);
  return cleanEnv(env, variables, {
    reporter: ({ errors }) => {
      const lines = faultsOf(errors, env);
      for (const group of groups) {
        const missing = group.filter((name) => env[name] === undefined);
        if (missing.length === group.length) continue;
        lines.push(
          ...missing.map(
            (name) => `${name} is required with ${group.filter((other) => other !== name).join(' and ')}`,
          ),
        );
      }
      if (lines.length > 0) throw new ConfigError(lines.join('\n'));
    },
  });
}

/**
 * Reads the one variable that a command beside the server needs.
 * @param environment - As for readConfig.
 * @throws ConfigError when it is wrong.
 */
export function readDatabaseUrl(environment: NodeJS.ProcessEnv): string {
  const env = withoutEmpty(environment);
  const { DATABASE_URL } = variables;
  return cleanEnv(
    env,
    { DATABASE_URL },
    {
      reporter: ({ errors }) => {
        const lines = faultsOf(errors, env);
        if (lines.length > 0) throw new ConfigError(lines.join('\n'));
      },
    },
  ).DATABASE_URL;
}

/**
 * Variables that are probably meant to be ones of the service, and are not.
 * @param environment - As for readConfig.
 * @returns Each with the variable that it resembles.
 */
export function misspelledVariables(environment: NodeJS.ProcessEnv): { name: string; meant: string }[] {
  const known = Object.keys(variables);
  return Object.keys(environment).flatMap((name) => {
    // Short names resemble too much: HOME is not HOST.
    if (name.length < 6 || known.includes(name)) return [];
    const meant = closestMatch(name, known, { maxDistance: 2 });
    return meant === undefined ? [] : [{ name, meant }];
  });
}

function withoutEmpty(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
}

/** What is wrong with each variable, and what it is; a database's URL may hold a password, and is not shown. */
function faultsOf(errors: Partial<Record<string, Error>>, env: NodeJS.ProcessEnv): string[] {
  return Object.entries(errors).map(([name, error]) => {
    const value = name === 'DATABASE_URL' ? '' : `, not ${JSON.stringify(env[name])}`;
    return `${name} ${error?.message ?? 'is wrong'}${value}`;
  });
}
