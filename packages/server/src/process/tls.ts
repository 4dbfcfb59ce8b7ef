// Reads the certificate of the service.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { Tls } from '../http/connection/server.js';
import { messageOf } from '../storage/core/interface.js';
import { ConfigError, type Config } from './config.js';

/**
 * The certificate and its key, if configured.
 * @throws ConfigError with the reason why OpenSSL cannot use them.
 */
export function readTls({ TLS_CERT_FILE, TLS_KEY_FILE }: Config): Tls | undefined {
  if (TLS_CERT_FILE === undefined || TLS_KEY_FILE === undefined) return undefined;
  try {
    const tls = { cert: readFileSync(TLS_CERT_FILE), key: readFileSync(TLS_KEY_FILE) };
    expiryOf(tls.cert);
    createSecureContext(tls);
    return tls;
  } catch (error) {
    throw new ConfigError(`TLS_CERT_FILE or TLS_KEY_FILE: ${messageOf(error)}`, { cause: error });
  }
}

/** When a certificate expires. @param chain - In PEM, the server's own certificate first. */
export function expiryOf(chain: Buffer): Date {
  return new Date(new X509Certificate(chain).validTo);
}
