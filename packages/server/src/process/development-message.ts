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
  service: Service,
  { listeningOrigin: url, tokenPlace }: FastifyInstance,
  { tokens }: Storage,
  config: Config,
): Promise<void> {
  const { example } = service;
  const lines = ['', `Service         ${url}`, `Documentation   ${url}/docs/`];
  if (service.databaseUrl !== undefined) lines.push(`Store           ${describeStore(config.DATABASE_URL)}`);
  if (service.databaseUrl === undefined || tokenPlace === undefined) {
    if (example !== undefined) lines.push('', describeExample(example, url, {}));
  } else {
    const { access, secret } = await accessTo(service, tokens, config);
    lines.push(`Access tokens   ${access}`);
    if (example !== undefined && secret !== undefined)
      lines.push('', describeExample(example, url, placed(tokenPlace, secret)));
  }
  process.stderr.write(`${lines.join('\n')}\n\n`);
}

/** Says which access tokens there are, and creates the first one if it may. */
async function accessTo(
  service: Service,
  tokens: Storage['tokens'],
  config: Config,
): Promise<{ access: string; secret?: string }> {
  const create = creationOf(service, config);
  if ((await tokens.stored('')).length > 0)
    return { access: `in the store already; to create another: ${create}` };
  if (config.NODE_ENV === 'production' || !loopback.includes(config.HOST))
    return { access: `none in the store; to create one: ${create}` };
  const { scopes, tokenPrefix: prefix } = service;
  const { secret } = await issueToken(tokens, { prefix, subject: 'dev', scopes, now: Date.now() });
  const access = `${secret} (for subject "dev", shown only once)\nAnother token   ${create}`;
  return { access, secret };
}

/** The command that creates a token in another terminal, which lacks the variables of this one. */
function creationOf({ command, databaseUrl }: Service, { DATABASE_URL: url }: Config): string {
  const create = `${nodeCommand(command)} token create SUBJECT`;
  // The URL may contain a password.
  return url === databaseUrl ? create : `${create}, with the same DATABASE_URL`;
}

function describeExample(
  { purpose, method, path, body }: ExampleRequest,
  url: string,
  { headers = {}, query }: Partial<ReturnType<typeof placed>>,
): string {
  const sent = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`);
  const target = query === undefined ? `${url}${path}` : `'${url}${path}?${query}'`;
  return `${purpose}:

  curl -i${method === 'POST' ? '' : ` -X ${method}`} ${target}${sent.join('')} \\
    -H 'Content-Type: application/json' -d '${body}'`;
}
