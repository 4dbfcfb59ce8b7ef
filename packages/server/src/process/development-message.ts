// The message that a developer sees when the server starts in development mode.
import { networkInterfaces } from 'node:os';
import type { Config } from '../config.js';
import type { ExampleRequest, Service } from '../definition.js';
import { nodeCommand } from '../node-command.js';
import type { Storage } from '../storage/interface.js';
import { issueToken } from '../storage/access-token.js';
import { describeStore } from '../storage/open.js';

const loopback = ['127.0.0.1', '::1', 'localhost'];

/**
 * Prints the addresses of the service, its documentation and its store to standard error, not to the log. If the store
 * has no tokens, creates and prints a first one, but only on a loopback address and not in production.
 * @param service - The service, with the request to suggest.
 * @param origin - The origin on which the service listens.
 * @throws StorageError when the store cannot list or create tokens.
 */
export async function greetDeveloper(
  { command, scopes, tokenPrefix: prefix, example }: Service,
  origin: string,
  { tokens }: Storage,
  config: Config,
): Promise<void> {
  const url = reachable(origin);
  const { done: isNew } = await tokens.list()[Symbol.asyncIterator]().next();
  const reason =
    config.NODE_ENV === 'production'
      ? 'NODE_ENV is production'
      : loopback.includes(config.HOST)
        ? undefined
        : `HOST is ${config.HOST}, which others can reach`;
  let secret: string | undefined;
  const create = `${nodeCommand(command)} token create SUBJECT`;
  let access = `in the store already; to create another: ${create}`;
  if (isNew && reason !== undefined) {
    access = `none, since ${reason}; to create one: ${create}`;
  } else if (isNew) {
    ({ secret } = await issueToken(tokens, { prefix, subject: 'dev', scopes, now: Date.now() }));
    access = `${secret} (for subject "dev", shown only once)`;
  }
  const lines = [
    `Service         ${url}`,
    `Documentation   ${url}/docs/`,
    `Store           ${describeStore(config.DATABASE_URL)}`,
    `Access tokens   ${access}`,
  ];
  const suggestion =
    secret === undefined || example === undefined ? '' : `\n${describeExample(example, url, secret)}\n`;
  process.stderr.write(`\n${lines.join('\n')}\n${suggestion}\n`);
}

function describeExample(
  { purpose, method, path, body }: ExampleRequest,
  url: string,
  token: string,
): string {
  return `${purpose}:

  curl -i${method === 'POST' ? '' : ` -X ${method}`} ${url}${path} -H 'Authorization: Bearer ${token}' \\
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
