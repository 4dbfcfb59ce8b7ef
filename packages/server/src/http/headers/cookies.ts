// Parses cookies.
import type { IncomingMessage } from 'node:http';

/** Cookies by their names; an array where a name is repeated. It has no prototype. */
type Cookies = Readonly<Record<string, string | readonly string[]>>;

/** Parses the cookies of a request (RFC 6265 section 4.2). */
export function cookiesOf({ headers }: IncomingMessage): Cookies {
  const values = Object.create(null) as Record<string, string | string[]>;
  for (const pair of headers.cookie?.split(';') ?? []) {
    const end = pair.indexOf('=');
    if (end < 0) continue;
    const name = pair.slice(0, end).trim();
    const value = decode(pair.slice(end + 1).trim());
    const known = values[name];
    if (known === undefined) values[name] = value;
    else if (typeof known === 'string') values[name] = [known, value];
    else known.push(value);
  }
  return values;
}

/** Decodes a percent-encoded text; returns any other text unchanged. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
