// Reads the certificate of the service.
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { Tls } from '../http/connection/server.js';
import { messageOf } from '../storage/core/interface.js';
import { ConfigError, type Config } from './config.js';

/**
 * The certificate and its key, if configured.
 * @throws ConfigError that says what is wrong with a file, or that both do not belong together.
 */
export function readTls({ TLS_CERT_FILE, TLS_KEY_FILE }: Config): Tls | undefined {
  if (TLS_CERT_FILE === undefined || TLS_KEY_FILE === undefined) return undefined;
  const cert = readPem('TLS_CERT_FILE', TLS_CERT_FILE, 'CERTIFICATE');
  const key = readPem('TLS_KEY_FILE', TLS_KEY_FILE, 'PRIVATE KEY');
  try {
    if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
      throw new Error('the key is not that of the first certificate');
    createSecureContext({ cert, key });
    return { cert, key };
  } catch (error) {
    throw new ConfigError(`TLS_CERT_FILE or TLS_KEY_FILE: ${messageOf(error)}`, { cause: error });
  }
}

/** @throws ConfigError that says what is wrong with a file of PEM (RFC 7468), which must have this part. */
function readPem(name: string, file: string, part: 'CERTIFICATE' | 'PRIVATE KEY'): Buffer {
  try {
    const pem = readFileSync(file);
    const text = pem.toString('latin1');
    const labels = Array.from(text.matchAll(/^-----BEGIN (.+)-----/gm), ([, label = '']) => label);
    if (text.trim() === '') throw new Error('the file is empty');
    if (labels.length === 0)
      throw new Error('the file is not PEM: "openssl x509" converts a certificate, and "openssl pkey" a key');
    if (!labels.some((label) => label.endsWith(part)))
      throw new Error(`the file has no ${part}, but ${labels.join(', ')}`);
    if (part === 'PRIVATE KEY' && text.includes('ENCRYPTED'))
      throw new Error('the key is encrypted: "openssl pkey" decrypts it');
    return pem;
  } catch (error) {
    throw new ConfigError(`${name}: ${messageOf(error)}`, { cause: error });
  }
}

/** When a certificate expires. @param chain - In PEM, the server's own certificate first. */
export function expiryOf(chain: Buffer): Date {
  return new Date(new X509Certificate(chain).validTo);
}
