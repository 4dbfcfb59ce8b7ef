// The formats of texts, as strict as the documents that define them.
import type { Ajv } from 'ajv';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

const fullTime = /^([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(?:\.\d+)?(?:z|([+-])([01]\d|2[0-3]):([0-5]\d))$/i;

/** RFC 3339 section 5.6, full-date. */
function isDate(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false;
  const date = new Date(text);
  // JavaScript takes the 30th of February for a day in March.
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/** RFC 3339 section 5.6, full-time. A leap second is the last second of a day in UTC. */
function isTime(text: string): boolean {
  const [, hour, minute, second, sign, offsetHour = 0, offsetMinute = 0] = fullTime.exec(text) ?? [];
  if (second !== '60') return second !== undefined;
  const offset = (sign === '-' ? -1 : 1) * (60 * Number(offsetHour) + Number(offsetMinute));
  return (60 * Number(hour) + Number(minute) - offset + 1) % (24 * 60) === 0;
}

const hostname = addFormats.default.get('hostname') as RegExp;
const uri = addFormats.default.get('uri') as (text: string) => boolean;

/**
 * RFC 3986 section 3: after `//` comes an authority. ajv-formats also takes it for a path, which may contain `@` and `:`
 * anywhere; it has checked all other characters.
 */
const authority = /^[^:]*:(?:(?!\/\/)|\/\/(?:[^@/?#]*@)?(?:\[[^\]]*\]|[^:@/?#]*)(?::\d*)?(?:[/?#]|$))/;

const formats: Readonly<Record<string, RegExp | ((text: string) => boolean)>> = {
  date: isDate,
  time: isTime,
  'date-time': (text) => /^.{10}t/i.test(text) && isDate(text.slice(0, 10)) && isTime(text.slice(11)),
  // RFC 4648 section 4.
  byte: (text) => text.length % 4 === 0 && /^[a-z0-9+/]*={0,2}$/i.test(text),
  // RFC 9562 section 4, without the prefix of a URN.
  uuid: /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i,
  // RFC 1123 section 2.1; only DNS has names with a dot at the end.
  hostname: (text) => !text.endsWith('.') && hostname.test(text),
  uri: (text) => uri(text) && authority.test(text),
};

/** Adds the formats to Ajv. */
export function addTextFormats(ajv: Ajv | Ajv2020): void {
  addFormats.default(ajv, ['email', 'ipv4', 'ipv6', 'password']);
  for (const [name, format] of Object.entries(formats)) ajv.addFormat(name, format);
}
