// The types of environment variables: each parses a value, and describes what is wrong with an invalid one.
import { isIP } from 'node:net';
import { fileURLToPath } from 'node:url';
import { EnvError, makeExactValidator } from 'envalid';
import { automaticThreads, kernelDistributes, mostThreads, needsKernel } from './system-limits.js';

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** A whole number. */
export function integer(min: number, max: number) {
  return makeExactValidator<number>((text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
    if (value >= min && value <= max) return value;
    throw new EnvError(`must be a whole number from ${min} to ${max}`);
  });
}

export const port = integer(0, 65_535);

export const threads = makeExactValidator<number>((value) => {
  if (value === 'auto') return automaticThreads();
  if (/^[1-9]\d{0,2}$/.test(value)) {
    if (Number(value) > mostThreads)
      throw new EnvError(`must be at most ${mostThreads}, eight for each core`);
    if (value === '1' || kernelDistributes) return Number(value);
    throw new EnvError(`must be 1 or auto, since ${needsKernel}`);
  }
  throw new EnvError('must be a whole number from 1 to 999, or auto');
});

/**
 * Checks a text that a shell, a file of variables or an editor may have changed on its way.
 * @throws EnvError that does not contain the text, which may have a password.
 */
function checkPlain(value: string): void {
  const [hidden] = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.exec(value) ?? [];
  if (hidden !== undefined) {
    const code = hidden.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0');
    throw new EnvError(`must not contain the invisible character U+${code}`);
  }
  if (value !== value.trim()) throw new EnvError('must not begin or end with a blank');
  if (/^(["'`]).*\1$/.test(value)) throw new EnvError('must be written without quotes around it');
}

/** @throws EnvError for a name of a variable that nothing has replaced by its value. */
function checkReplaced(value: string): void {
  const [name] = /\$(?:\w+|\{[^}]*\}?)/.exec(value) ?? [];
  if (name !== undefined)
    throw new EnvError(`must not contain ${name}, which nothing has replaced by a value`);
}

/** A text, which may contain a password. */
export const text = makeExactValidator<string>((value) => {
  checkPlain(value);
  return value;
});

/** An address to listen on, or the path of a file. */
export const place = makeExactValidator<string>((value) => {
  checkPlain(value);
  checkReplaced(value);
  return value;
});
export const logLevel = makeExactValidator<(typeof logLevels)[number]>((value) => {
  const level = logLevels.find((known) => known === value);
  if (level !== undefined) return level;
  throw new EnvError(`must be one of ${logLevels.join(', ')}`);
});
export const flag = makeExactValidator<boolean>((value) => {
  if (value === 'true' || value === 'false') return value === 'true';
  throw new EnvError('must be true or false');
});

/** A comma-separated list; empty for none. */
function list(rule: string, accepts: (item: string) => boolean) {
  return makeExactValidator<readonly string[]>((value) => {
    const items = value
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '');
    if (items.every(accepts)) return items;
    throw new EnvError(`must be a comma-separated list of ${rule}`);
  });
}
export const origins = list('origins, such as https://example.org (or *)', (item) => {
  return item === '*' || (URL.canParse(item) && new URL(item).origin === item);
});
export const networks = list('addresses and networks, such as 10.0.0.0/8', (item) => {
  const [, address = '', prefix = '1'] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(item) ?? [];
  const longest = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0;
  // Trusting every address (/0) would let any client claim any address.
  return Number(prefix) >= 1 && Number(prefix) <= longest;
});
export const databaseUrl = makeExactValidator<string>((value) => {
  checkPlain(value);
  if (/^postgres(ql)?:\/\/./.test(value)) return checkPostgresUrl(value);
  if (/^(?:host|hostaddr|port|user|password|dbname|service)\s*=/.test(value))
    throw new EnvError(
      'must be a URL, postgres://USER:PASSWORD@HOST:PORT/DATABASE, not the keywords of libpq',
    );
  if (/^[A-Z][A-Z0-9_]*=/.test(value))
    throw new EnvError('must be the value alone, without its name and = before it');
  if (/\s#/.test(value)) throw new EnvError('must not have a comment after it');
  checkReplaced(value);
  if (/^[^/]*@/.test(value) || /^[\w.-]+:\d+\//.test(value))
    throw new EnvError('must begin with postgres:// if it is the address of a database');
  // A path on Windows may start with a letter and a colon.
  const [scheme = ''] = /^[a-z][a-z0-9+.-]+:/i.exec(value) ?? [];
  const path = value.slice(scheme.length);
  if (!['', 'file:'].includes(scheme) || path === '')
    throw new EnvError('must be file:PATH, a path, or postgres://…');
  if (path.startsWith('~')) throw new EnvError('must not start with ~: write the full path of the file');
  if (path.startsWith(':')) throw new EnvError('must name a file: a store in memory would not be durable');
  if (scheme === '') return value;
  // SQLite has parameters like these. If they were taken as part of the file's name, an empty store would begin.
  if (/\?\w+=[^/]*$/.test(path))
    throw new EnvError(
      'must be file:PATH, without parameters; for a file with this name, write its path alone',
    );
  if (path.startsWith('//') && /[?#]/.test(path))
    throw new EnvError(
      'must be a URL without parameters: write %3F for ? and %23 for # in the name of a file',
    );
  try {
    if (path.startsWith('//')) fileURLToPath(value);
  } catch (error) {
    throw new EnvError(`must be a file on this machine: ${(error as Error).message}`);
  }
  return value;
});

/** @throws EnvError for a URL that cannot be read, or not as it was meant. */
function checkPostgresUrl(value: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || `${url.pathname}${url.search}${url.hash}`.includes('@') || url.hash !== '')
    throw new EnvError(
      'must be a URL: in its user and password, write %2F for /, %3F for ?, %23 for #, %40 for @, %3A for : and %25 for %',
    );
  checkReplaced(`${url.hostname}${url.pathname}`);
  return value;
}

export const safeUrl = makeExactValidator<string>((value) => {
  const { protocol, hostname } = URL.canParse(value) ? new URL(value) : {};
  const loopback = ['127.0.0.1', '[::1]', 'localhost'].includes(hostname ?? '');
  // The URL parser would drop line breaks and escape spaces.
  if (/^[!-~]+$/.test(value) && (protocol === 'https:' || (protocol === 'http:' && loopback))) return value;
  throw new EnvError('must be an https URL (http on a loopback address only)');
});
