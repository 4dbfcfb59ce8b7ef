// Reads the certificate of the service.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { Tls } from '../http/connection/server.js';
import { ConfigError, type Config } from './config.js';

/**
 * The certificate and its key, if configured.
 * @throws ConfigError naming the variable of a file that is unreadable or invalid.
 */
export function readTls({ TLS_CERT_FILE, TLS_KEY_FILE }: Config): Tls | undefined {
  if (TLS_CERT_FILE === undefined || TLS_KEY_FILE === undefined) return undefined;
  const cert = checked('TLS_CERT_FILE', () => readFileSync(TLS_CERT_FILE));
  const key = checked('TLS_KEY_FILE', () => readFileSync(TLS_KEY_FILE));
  checked('TLS_CERT_FILE and TLS_KEY_FILE', () => createSecureContext({ cert, key }));
  return { cert, key };
}

function checked<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new ConfigError(`${name}: ${(error as Error).message}`, { cause: error });
  }
}

/** When a certificate expires. @param chain - In PEM, the server's own certificate first. */
export function expiryOf(chain: Buffer): Date {
  return new Date(new X509Certificate(chain).validTo);
}
