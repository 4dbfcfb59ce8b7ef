// The commands that create, list and revoke access tokens.
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { Token, TokenRepository } from '../../storage/core/interface.js';
import { isSubject, issueToken } from '../../storage/core/tokens.js';
import { CommandError } from '../start-errors.js';
import type { StoreCommands, StoreOptions } from './store-commands.js';

const states = ['valid', 'expired', 'revoked'] as const;
type State = (typeof states)[number];

/** The description of the option --json. */
const asJson = 'print JSON to standard output';

interface CreateOptions extends StoreOptions {
  scope?: string[];
  expires?: number;
  json?: true;
}

interface ListOptions extends StoreOptions {
  subject?: string;
  state?: State;
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
  commands
    .add(parent, 'create')
    .description('create a token and print it to standard output; it cannot be shown again')
    .argument('<subject>', 'owner of the data that the token gives access to', parseSubject)
    .addOption(
      new Option('--scope <scope>', 'scope of the token; may be repeated (default: all scopes)')
        .choices(scopes)
        // Replaces the parser that choices() sets, which keeps only the last value.
        .argParser((value, previous: string[] | undefined) => {
          if (scopes.includes(value)) return [...(previous ?? []), value];
          throw new InvalidArgumentError(`Allowed choices are ${scopes.join(', ')}.`);
        }),
    )
    .option(
      '--expires <duration>',
      'lifetime: a number followed by s, m, h, d or w, such as 90d (default: never expires)',
      parseDuration,
    )
    .option('--json', asJson)
    .action(async (subject: string, options: CreateOptions) => {
      await commands.withStorage(options, async ({ tokens }) => {
        const now = Date.now();
        const { token, secret } = await issueToken(tokens, {
          prefix,
          subject,
          scopes: scopes.filter((scope) => options.scope?.includes(scope) ?? true),
          now,
          expiresAt: options.expires === undefined ? undefined : now + options.expires,
        });
        const { id, scopes: allowed, expires } = shownToken(token);
        const expiry = expires === null ? 'does not expire' : `expires ${expires}`;
        const list = allowed.length === 0 ? 'no scopes' : allowed.join(' ');
        console.error(`Token ${id} for subject ${JSON.stringify(subject)}: ${list}, ${expiry}.`);
        if (options.json) printJson({ ...shownToken(token), token: secret });
        else console.log(secret);
      });
    });
}

function addList(parent: Command, commands: StoreCommands): void {
  commands
    .add(parent, 'list')
    .description('list tokens, oldest first; secrets are not stored and cannot be shown')
    .option('--subject <subject>', 'only tokens of this subject', parseSubject)
    .addOption(new Option('--state <state>', 'only tokens in this state').choices(states))
    .option('--json', asJson)
    .action(async (options: ListOptions) => {
      await commands.withStorage(options, async ({ tokens }) => {
        const { subject, state } = options;
        const all = (await readTokens(tokens, subject)).map(shownToken);
        const list = all.filter((token) => token.state === (state ?? token.state));
        if (options.json) printJson(list);
        else if (list.length === 0) console.error('No tokens match.');
        else for (const row of [header, ...list.map(cellsOf)]) console.log(rowOf(row));
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
  commands
    .add(parent, 'revoke')
    .description('revoke a token; takes effect within 5 seconds')
    .argument('<id>', 'id of the token, as shown by "token create" and "token list"')
    .action(async (id: string, options: StoreOptions) => {
      await commands.withStorage(options, async ({ tokens }) => {
        if (!(await tokens.revoke(id)))
          throw new CommandError(`no token has the id ${JSON.stringify(id)}: "token list" shows the ids`);
        console.error(`Token ${id} is revoked.`);
      });
    });
}

function printJson(value: unknown): void {
  console.log(JSON.stringify(value, undefined, 2));
}

function parseSubject(value: string): string {
  if (isSubject(value)) return value;
  throw new InvalidArgumentError('It must have 1 to 255 characters and no control characters.');
}

/** Parses a number and a unit as a duration in ms. */
function parseDuration(value: string): number {
  const units: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };
  const [, amount, unit] = /^([1-9]\d{0,8})([smhdw])$/.exec(value) ?? [];
  if (amount === undefined)
    throw new InvalidArgumentError('It must be a number followed by s, m, h, d or w, such as 90d.');
  const duration = Number(amount) * units[unit!]! * 1000;
  // The latest time that a Date can represent.
  if (Date.now() + duration > 8.64e15) throw new InvalidArgumentError('It is too long.');
  return duration;
}

/** A token as the commands show it, with times in ISO 8601 and null for never. */
function shownToken({ id, subject, scopes, createdAt, expiresAt, revokedAt }: Token) {
  const time = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString());
  const expired = expiresAt !== undefined && expiresAt <= Date.now();
  const state: State = revokedAt !== undefined ? 'revoked' : expired ? 'expired' : 'valid';
  return {
    id,
    subject,
    scopes,
    created: time(createdAt),
    expires: time(expiresAt),
    revoked: time(revokedAt),
    state,
  };
}

type ShownToken = ReturnType<typeof shownToken>;

/** The columns of the table of tokens, and their widths, unless a value is longer. */
const header = ['ID', 'SUBJECT', 'SCOPES', 'CREATED', 'EXPIRES', 'STATE'];
const widths = [12, 20, 25, 24, 24, 0];

function cellsOf({ id, subject, scopes, created, expires, state }: ShownToken): string[] {
  return [id, subject, scopes.join(' '), created ?? '', expires ?? 'never', state];
}

function rowOf(cells: readonly string[]): string {
  return cells.map((cell, i) => cell.padEnd(widths[i]!)).join('  ');
}
