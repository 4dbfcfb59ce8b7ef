// The message that a developer sees when the server starts in development mode.
import { networkInterfaces } from 'node:os';
import type { Config } from './config.js';
import type { ExampleRequest, Service } from '../service/definition.js';
import { placed } from '../http/security/credentials.js';
import type { TokenPlace } from '../http/security/verifier.js';
import { nodeCommand } from '../base/node-command.js';
import type { Storage } from '../storage/core/interface.js';
import { issueToken } from '../storage/core/access-token.js';
import { describeStore } from '../storage/open.js';

const loopback = ['127.0.0.1', '::1', 'localhost'];

/** The origin of a service, and the place of its own access tokens in a request, if it takes them. */
export interface Reachable {
  readonly origin: string;
  readonly tokenPlace: TokenPlace | undefined;
}

/**
 * Prints the addresses of the service, its documentation and its store to standard error, not to the log. If the store
 * has no tokens though the service takes them, creates and prints a first one, but only on a loopback address and not in
 * production.
 * @param service - The service, with the request to suggest.
 * @throws StorageError when the store cannot list or create tokens.
 */
export async function greetDeveloper(
  service: Service,
  { origin, tokenPlace }: Reachable,
  { tokens }: Storage,
  config: Config,
): Promise<void> {
  const { example, databaseUrl } = service;
  const url = reachable(origin);
  const takesTokens = databaseUrl !== undefined && tokenPlace !== undefined;
  const { secret, access } = takesTokens ? await accessTo(service, tokens, config) : {};
  const lines = [
    `Service         ${url}`,
    `Documentation   ${url}/docs/`,
    ...(databaseUrl === undefined ? [] : [`Store           ${describeStore(config.DATABASE_URL)}`]),
    ...(access === undefined ? [] : [`Access tokens   ${access}`]),
  ];
  const credential = secret === undefined ? undefined : { place: tokenPlace!, secret };
  const suggestion =
    example === undefined || (takesTokens && secret === undefined)
      ? ''
      : `\n${describeExample(example, url, credential)}\n`;
  process.stderr.write(`\n${lines.join('\n')}\n${suggestion}\n`);
}

/** Says which access tokens there are, and creates the first one if it may. */
async function accessTo(
  { command, scopes, tokenPrefix: prefix }: Service,
  tokens: Storage['tokens'],
  config: Config,
): Promise<{ access: string; secret?: string }> {
  const { done: isNew } = await tokens.list()[Symbol.asyncIterator]().next();
  const reason =
    config.NODE_ENV === 'production'
      ? 'NODE_ENV is production'
      : loopback.includes(config.HOST)
        ? undefined
        : `HOST is ${config.HOST}, which others can reach`;
  const create = `${nodeCommand(command)} token create SUBJECT`;
  if (!isNew) return { access: `in the store already; to create another: ${create}` };
  if (reason !== undefined) return { access: `none, since ${reason}; to create one: ${create}` };
  const { secret } = await issueToken(tokens, { prefix, subject: 'dev', scopes, now: Date.now() });
  return { access: `${secret} (for subject "dev", shown only once)`, secret };
}

function describeExample(
  { purpose, method, path, body }: ExampleRequest,
  url: string,
  credential: { place: TokenPlace; secret: string } | undefined,
): string {
  const { headers = {}, query } = credential ? placed(credential.place, credential.secret) : {};
  const sent = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`);
  const target = query === undefined ? `${url}${path}` : `'${url}${path}?${query}'`;
  return `${purpose}:

  curl -i${method === 'POST' ? '' : ` -X ${method}`} ${target}${sent.join('')} \\
    -H 'Content-Type: application/json' -d '${body}'`;
}

/** The origin that a browser can open: replaces the unspecified address with one of this machine. */
function reachable(origin: string): string {
  const url = new URL(origin);
  if (url.hostname !== '0.0.0.0' && url.hostname !== '[::]') return origin;
  const outside = Object.values(networkInterfaces())
    .flat()
    .find((address) => address?.family === 'IPv4' && !address.internal);
  url.hostname = outside?.address ?? '127.0.0.1';
  return url.origin;
}
