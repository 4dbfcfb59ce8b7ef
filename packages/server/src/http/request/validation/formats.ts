// The formats of texts, as strict as the documents that define them.
import type { Ajv } from 'ajv';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

type Test = (text: string) => boolean;
const hostname = addFormats.default.get('hostname') as RegExp;
const uri = addFormats.default.get('uri') as Test;
const time = addFormats.default.get('time') as { validate: Test };
const dateTime = addFormats.default.get('date-time') as { validate: Test };

/** RFC 3339 section 5.6, partial-time and time-offset: ajv-formats also takes offsets without a colon, and some late hours. */
const clock = /(?:[01]\d|2[0-3]):[0-5]\d:.*(?:z|:\d\d)$/i.source;
const ofTime = new RegExp(`^${clock}`, 'i');
const ofDateTime = new RegExp(`^.{10}t${clock}`, 'i');

/**
 * RFC 3986 section 3: after `//` comes an authority. ajv-formats also takes it for a path, which may contain `@` and `:`
 * anywhere; it has checked all other characters.
 */
const authority = /^[^:]*:(?:(?!\/\/)|\/\/(?:[^@/?#]*@)?(?:\[[^\]]*\]|[^:@/?#]*)(?::\d*)?(?:[/?#]|$))/;

const formats: Readonly<Record<string, RegExp | Test>> = {
  time: (text) => ofTime.test(text) && time.validate(text),
  'date-time': (text) => ofDateTime.test(text) && dateTime.validate(text),
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
  addFormats.default(ajv, ['date', 'email', 'ipv4', 'ipv6', 'password']);
  for (const [name, format] of Object.entries(formats)) ajv.addFormat(name, format);
}
