// The commands that create, list and revoke access tokens.
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { Token, TokenRepository } from '../../storage/core/interface.js';
import { isSubject, issueToken } from '../../storage/core/tokens.js';
import { CommandError } from '../start-errors.js';
import type { StoreCommands } from './store-commands.js';

const day = 86_400_000;

interface CreateOptions {
  scope: string[];
  days?: number;
  json?: true;
}

/** Adds the command "token" with its subcommands to the program. */
export function addTokenCommands(program: Command, commands: StoreCommands): void {
  const token = program.command('token').description('create, list and revoke access tokens');
  addCreate(token, commands);
  addList(token, commands);
  addRevoke(token, commands);
}

function addCreate(parent: Command, commands: StoreCommands): void {
  const { scopes, tokenPrefix: prefix } = commands.service;
  const scope = new Option('--scope <scope...>', 'scopes of the token');
  parent
    .command('create')
    .description('create a token and print it to standard output; it cannot be shown again')
    .argument('<subject>', 'owner of the data that the token gives access to', parseSubject)
    .addOption(scope.choices(scopes).default(scopes, 'all scopes'))
    .option('--days <number>', 'days until the token expires (default: never)', parseDays)
    .option('--json', 'print JSON, with the id, to standard output')
    .action(async (subject: string, options: CreateOptions) => {
      await commands.withStorage(async ({ tokens }) => {
        const now = Date.now();
        const { token, secret } = await issueToken(tokens, {
          prefix,
          subject,
          scopes: scopes.filter((scope) => options.scope.includes(scope)),
          now,
          expiresAt: options.days === undefined ? undefined : now + options.days * day,
        });
        const { id, scopes: allowed, expires } = shownToken(token);
        const expiry = expires === null ? 'does not expire' : `expires ${expires}`;
        const list = allowed.length === 0 ? 'no scopes' : allowed.join(' ');
        console.error(`Token ${id} for subject ${JSON.stringify(subject)}: ${list}, ${expiry}.`);
        console.log(options.json ? JSON.stringify({ ...shownToken(token), token: secret }) : secret);
      });
    });
}

function addList(parent: Command, commands: StoreCommands): void {
  parent
    .command('list')
    .description('list tokens, oldest first, each as a line of JSON; secrets are not stored')
    .option('--subject <subject>', 'only tokens of this subject', parseSubject)
    .action(async ({ subject }: { subject?: string }) => {
      await commands.withStorage(async ({ tokens }) => {
        const list = await readTokens(tokens, subject);
        if (list.length > 0) console.log(list.map((token) => JSON.stringify(shownToken(token))).join('\n'));
      });
    });
}

/** Returns all tokens, or those of a subject, the oldest first. */
async function readTokens(repository: TokenRepository, subject: string | undefined): Promise<Token[]> {
  const tokens: Token[] = [];
  let part: Token[];
  do {
    part = await repository.stored(tokens.at(-1)?.id ?? '', subject);
    tokens.push(...part);
  } while (part.length > 0);
  return tokens.sort((a, b) => a.createdAt - b.createdAt);
}

function addRevoke(parent: Command, commands: StoreCommands): void {
  parent
    .command('revoke')
    .description('revoke a token; takes effect within 5 seconds')
    .argument('<id>', 'id of the token, as shown by "token create" and "token list"')
    .action(async (id: string) => {
      await commands.withStorage(async ({ tokens }) => {
        if (!(await tokens.revoke(id)))
          throw new CommandError(`no token has the id ${JSON.stringify(id)}: "token list" shows the ids`);
        console.error(`Token ${id} is revoked.`);
      });
    });
}

function parseSubject(value: string): string {
  if (isSubject(value)) return value;
  throw new InvalidArgumentError('It must have 1 to 255 characters and no control characters.');
}

function parseDays(value: string): number {
  if (/^[1-9]\d{0,4}$/.test(value)) return Number(value);
  throw new InvalidArgumentError('It must be a whole number from 1 to 99999.');
}

/** A token as the commands show it, with times in ISO 8601 and null for never. */
function shownToken({ id, subject, scopes, createdAt, expiresAt, revokedAt }: Token) {
  const time = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString());
  const expired = expiresAt !== undefined && expiresAt <= Date.now();
  const state = revokedAt !== undefined ? 'revoked' : expired ? 'expired' : 'valid';
  const times = { created: time(createdAt), expires: time(expiresAt), revoked: time(revokedAt) };
  return { id, subject, scopes, ...times, state };
}
