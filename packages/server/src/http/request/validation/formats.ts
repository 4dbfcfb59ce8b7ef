// The formats of texts.
import type { Ajv } from 'ajv';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

/** Adds the formats to Ajv. */
export function addTextFormats(ajv: Ajv | Ajv2020): void {
  addFormats.default(ajv, [
    ...(['date', 'time', 'date-time', 'email', 'hostname', 'ipv4', 'ipv6', 'password', 'uri'] as const),
  ]);
  // RFC 4648 section 4; ajv-formats also takes line breaks.
  ajv.addFormat('byte', (text) => text.length % 4 === 0 && /^[a-z0-9+/]*={0,2}$/i.test(text));
  // RFC 9562 section 4, without the prefix of a URN.
  ajv.addFormat('uuid', /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i);
}
