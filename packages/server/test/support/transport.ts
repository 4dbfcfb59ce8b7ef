// Over what tests reach the service: TCP, or TLS when TEST_TRANSPORT is `tls`.
import { execFile } from 'node:child_process';
import { connect, type Socket, type TcpNetConnectOpts } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import { lacks } from './skip.js';
import type { Tls } from '../../dist/http/connection/server.js';

const openssl = async (args: string) => promisify(execFile)('openssl', args.split(' '));

/** Why no certificate can be made here; undefined when one can. */
export const certificateLack = lacks('openssl');

/** Makes a certificate for localhost and its key, both in one PEM. */
export async function makeCertificate(): Promise<string> {
  const what =
    'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost';
  const names = '-addext subjectAltName=DNS:localhost -keyout - -out -';
  return (await openssl(`${what} ${names}`)).stdout;
}

const pem = process.env['TEST_TRANSPORT'] === 'tls' ? Buffer.from(await makeCertificate()) : undefined;

/** The certificate of the services under test when they are reached over TLS. */
export const tls: Tls | undefined = pem && { cert: pem, key: pem };

/** The client's side of a connection, which may be opening still. */
export interface Connection {
  /** What it says and hears. */
  readonly socket: Socket;
  /** What carries that: the same, unless it is TLS. */
  readonly tcp: Socket;
}

/** Opens a connection to a port of loopback. */
export function dial(options: Omit<TcpNetConnectOpts, 'host'>): Connection {
  const tcp = connect({ ...options, host: '127.0.0.1' });
  const socket = pem ? connectTls({ socket: tcp, ca: pem, servername: 'localhost' }) : tcp;
  return { socket, tcp };
}
