// The types of environment variables: each reads a text, or throws an Error that says what it must be.
import { isIP } from 'node:net';
import { postgresUrl } from './postgres-url.js';
import { isOlder } from '../base/version.js';

/** Whether the kernel distributes the connections of several threads that listen on one address. */
export const kernelDistributes = process.platform === 'linux' && !isOlder(process.versions.node, '22.12.0');
/** The message for a system whose kernel does not distribute connections. */
export const needsKernel = `several threads need Linux and Node.js 22.12 or later, and this is Node.js ${process.versions.node} on ${process.platform}`;

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** Returns the reader of whole numbers in a range. */
export function wholeNumber(min: number, max: number) {
  return (text: string): number => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
    if (value >= min && value <= max) return value;
    throw new Error(`must be a whole number from ${min} to ${max}`);
  };
}

export function threads(text: string): number {
  const count = wholeNumber(1, 999)(text);
  if (count > 1 && !kernelDistributes) throw new Error(`must be 1, since ${needsKernel}`);
  return count;
}

/** A text as it was meant: a shell, a file of variables or an editor may have changed it on its way. */
export function text(value: string): string {
  if (/^[\s"'`]|[\s"'`]$|[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(value))
    throw new Error('must have no quotes or blanks around it, and no invisible characters in it');
  return value;
}

/** Returns the reader of one of these words. */
export function oneOf<const Word extends string>(words: readonly Word[]) {
  return (text: string): Word => {
    const word = words.find((name) => name === text);
    if (word === undefined) throw new Error(`must be one of ${words.join(', ')}`);
    return word;
  };
}

const word = oneOf(['true', 'false']);
export const flag = (text: string) => word(text) === 'true';

/** Returns the reader of a comma-separated list; empty for none. */
function list(rule: string, accepts: (item: string) => boolean) {
  return (text: string): readonly string[] => {
    const items = text.split(',').map((item) => item.trim());
    if (items.every(accepts)) return items;
    throw new Error(`must be a comma-separated list of ${rule}`);
  };
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

/** The URL of a store. Errors do not contain it, since it may have a password. */
export function databaseUrl(value: string): string {
  text(value);
  if (/^postgres(ql)?:\/\//.test(value)) return postgresUrl(value);
  // A path on Windows may start with a letter and a colon.
  const [scheme = ''] = /^[a-z][a-z0-9+.-]+:/i.exec(value) ?? [];
  const path = value.slice(scheme.length);
  // What was meant as another kind of URL, as parameters of SQLite, or as a variable would begin an empty store.
  const odd = scheme === '' ? /[@=$]|^~|:\/\// : /[?#]|%2f|%5c|^\/\/[^/]/i;
  if (!['', 'file:'].includes(scheme) || /^:|^$/.test(path) || odd.test(path))
    throw new Error('must be postgres://…, a path, or file:PATH without a host, parameters, %2F or %5C');
  return value;
}

export function safeUrl(text: string): string {
  const { protocol, hostname } = URL.canParse(text) ? new URL(text) : {};
  const isLoopback = ['127.0.0.1', '[::1]', 'localhost'].includes(hostname ?? '');
  // The URL parser would drop line breaks and escape spaces.
  if (/^[!-~]+$/.test(text) && (protocol === 'https:' || (protocol === 'http:' && isLoopback))) return text;
  throw new Error('must be an https URL (http on a loopback address only)');
}
