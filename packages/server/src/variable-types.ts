// The types of environment variables: how each is read from its text, and what is wrong with one that is not valid.
import { isIP } from 'node:net';
import { fileURLToPath } from 'node:url';
import { EnvError, makeExactValidator } from 'envalid';
import { automaticThreads, kernelDistributes, needsKernel } from './process/system-limits.js';

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
    if (value === '1' || kernelDistributes) return Number(value);
    throw new EnvError(`must be 1 or auto, since ${needsKernel}`);
  }
  throw new EnvError('must be a whole number from 1 to 999, or auto');
});

export const text = makeExactValidator<string>((value) => value);
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
  if (/^postgres(ql)?:\/\/./.test(value)) return value;
  // A path on Windows may start with a letter and a colon.
  const [scheme = ''] = /^[a-z][a-z0-9+.-]+:/i.exec(value) ?? [];
  const path = value.slice(scheme.length);
  if (!['', 'file:'].includes(scheme) || path === '')
    throw new EnvError('must be file:PATH, a path, or postgres://…');
  if (path.startsWith('~')) throw new EnvError('must not start with ~: write the full path of the file');
  if (path.startsWith(':')) throw new EnvError('must name a file: a store in memory would not be durable');
  if (scheme === '') return value;
  // SQLite has such parameters. With them taken as a part of the name, an empty store would begin.
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

export const safeUrl = makeExactValidator<string>((value) => {
  const { protocol, hostname } = URL.canParse(value) ? new URL(value) : {};
  const loopback = ['127.0.0.1', '[::1]', 'localhost'].includes(hostname ?? '');
  // The URL parser would drop line breaks and escape spaces.
  if (/^[!-~]+$/.test(value) && (protocol === 'https:' || (protocol === 'http:' && loopback))) return value;
  throw new EnvError('must be an https URL (http on a loopback address only)');
});
