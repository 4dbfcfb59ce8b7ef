// The message that a developer sees when the server starts in development mode.
import { nodeCommand } from '../base/node-command.js';
import { placed } from '../http/security/credentials.js';
import type { FastifyInstance } from 'fastify';
import type { ExampleRequest, Service } from '../service/definition.js';
import { issueToken } from '../storage/core/tokens.js';
import type { Storage } from '../storage/core/interface.js';
import { describeStore } from '../storage/open.js';
import type { Config } from './config.js';

const loopback = ['127.0.0.1', '::1', 'localhost'];

/**
 * Prints the addresses of the service, its documentation and its store to standard error, not to the log. If the store
 * has no tokens though the service takes them, creates and prints a first one, but only on a loopback address and not in
 * production.
 * @param service - The service, with the request to suggest.
 * @throws StorageError when the store cannot list or create tokens.
 */
export async function greetDeveloper(
  { command, databaseUrl, example, scopes, tokenPrefix: prefix }: Service,
  { listeningOrigin: url, tokenPlace }: FastifyInstance,
  { tokens }: Storage,
  { DATABASE_URL, NODE_ENV, HOST }: Config,
): Promise<void> {
  const lines = ['', `Service         ${url}`, `Documentation   ${url}/docs/`];
  let shown = example;
  let credentials: Credentials = {};
  if (databaseUrl !== undefined) lines.push(`Store           ${describeStore(DATABASE_URL)}`);
  if (databaseUrl !== undefined && tokenPlace !== undefined) {
    const hasNone = (await tokens.stored('')).length === 0;
    if (hasNone && NODE_ENV !== 'production' && loopback.includes(HOST)) {
      const { secret } = await issueToken(tokens, { prefix, subject: 'dev', scopes, now: Date.now() });
      lines.push(`Access tokens   ${secret} (for subject "dev", shown only once)`);
      credentials = placed(tokenPlace, secret);
    } else {
      lines.push(`Access tokens   ${hasNone ? 'none in the store' : 'in the store already'}`);
      shown = undefined;
    }
    // Another terminal lacks the variables of this one. The URL may contain a password.
    const elsewhere = DATABASE_URL === databaseUrl ? '' : ', with the same DATABASE_URL';
    lines.push(`Another token   ${nodeCommand(command)} token create SUBJECT${elsewhere}`);
  }
  if (shown !== undefined) lines.push('', describeExample(shown, url, credentials));
  process.stderr.write(`${lines.join('\n')}\n\n`);
}

type Credentials = Partial<ReturnType<typeof placed>>;

function describeExample(
  { purpose, method, path, body }: ExampleRequest,
  url: string,
  { headers = {}, query }: Credentials,
): string {
  const sent = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`);
  const target = query === undefined ? `${url}${path}` : `'${url}${path}?${query}'`;
  return `${purpose}:

  curl -i${method === 'POST' ? '' : ` -X ${method}`} ${target}${sent.join('')} \\
    -H 'Content-Type: application/json' -d '${body}'`;
}
