// The commands that create, list, find, revoke and prune access tokens.
import { text } from 'node:stream/consumers';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { nodeCommand } from '../../base/node-command.js';
import type { Token } from '../../storage/core/interface.js';
import { hashSecret, isSubject, issueToken } from '../../storage/core/access-token.js';
import { CommandError, printJson, type StoreCommands, type StoreOptions } from './store-commands.js';

const states = ['valid', 'expired', 'revoked'] as const;
type State = (typeof states)[number];

/** Adds the command "token" with its subcommands to the program. */
export function addTokenCommands(program: Command, commands: StoreCommands): void {
  const token = program.command('token').description('create, list, find, revoke and prune access tokens');
  addCreate(token, commands);
  addList(token, commands);
  addFind(token, commands);
  addRevoke(token, commands);
  addPrune(token, commands);
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
    .action(async (subject: string, options: StoreOptions & { scope?: string[]; expires?: number }) => {
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
    .action(async (options: StoreOptions & { subject?: string; state?: State }) => {
      await commands.withStorage(options, async ({ tokens }) => {
        const { subject, state } = options;
        if ((await printTokens(tokens.list(subject), options)) || options.json) return;
        if (subject !== undefined || state !== undefined) console.error('No tokens match.');
        else
          console.error(
            `There are no tokens. To create one, run: ${nodeCommand(commands.service.command)} token create SUBJECT`,
          );
      });
    });
}

function addFind(parent: Command, commands: StoreCommands): void {
  commands
    .add(parent, 'find')
    .description('show the token whose secret is on standard input: whom it belongs to, and its id')
    .action(async (options: StoreOptions) => {
      // As an argument, the token would be in the list of processes and in the shell's history. Logs show it with its scheme.
      const secret = (await text(process.stdin)).trim().replace(/^Bearer +/i, '');
      await commands.withStorage(options, async ({ tokens }) => {
        const [token] = await tokens.find([hashSecret(secret)]);
        if (token === undefined) throw new CommandError('no token has this secret, or it was pruned');
        if (options.json) printJson(shownToken(token));
        else await printTokens([token], {});
      });
    });
}

function addRevoke(parent: Command, commands: StoreCommands): void {
  commands
    .add(parent, 'revoke')
    .description('revoke a token; takes effect within 5 seconds')
    .argument('<id>', 'id of the token, as shown by "token create" and "token list"')
    .action(async (id: string, options: StoreOptions) => {
      await commands.withStorage(options, async ({ tokens }) => {
        const revoked = await tokens.revoke(id, Date.now());
        if (revoked === undefined) throw new CommandError(`no token has the id ${JSON.stringify(id)}`);
        console.error(`Token ${id} is revoked.`);
        if (options.json) printJson(shownToken(revoked));
      });
    });
}

function addPrune(parent: Command, commands: StoreCommands): void {
  commands
    .add(parent, 'prune')
    .description('delete revoked and expired tokens')
    .action(async (options: StoreOptions) => {
      await commands.withStorage(options, async ({ tokens }) => {
        const deleted = await tokens.prune(Date.now());
        console.error(`Deleted ${deleted} ${deleted === 1 ? 'token' : 'tokens'}.`);
        if (options.json) printJson({ deleted });
      });
    });
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

/** The columns of a table of tokens, with their widths, unless a value is longer. */
const columns = { id: 12, subject: 20, scopes: 25, created: 24, expires: 24, state: 0 };

/**
 * Prints tokens as they are read, as a table or as an array in JSON, so that any number of them takes little memory.
 * @param state - Only tokens in this state are printed.
 * @returns Whether any token was printed.
 */
async function printTokens(
  tokens: AsyncIterable<Token> | Token[],
  { json, state }: { json?: boolean; state?: State },
): Promise<boolean> {
  let isFirst = true;
  for await (const token of tokens) {
    const shown = shownToken(token);
    if ((state ?? shown.state) !== shown.state) continue;
    if (json) await print(`${isFirst ? '[' : ','}\n  ${JSON.stringify(shown)}`);
    else await print((isFirst ? rowOf((name) => name.toUpperCase()) : '') + rowOf(cellsOf(shown)));
    isFirst = false;
  }
  if (json) await print(isFirst ? '[]\n' : '\n]\n');
  return !isFirst;
}

type Column = keyof typeof columns;

function cellsOf(token: ReturnType<typeof shownToken>): (column: Column) => string {
  return (column) => (column === 'scopes' ? token.scopes.join(' ') : (token[column] ?? 'never'));
}

function rowOf(cell: (column: Column) => string): string {
  const cells = Object.entries(columns).map(([column, width]) => cell(column as Column).padEnd(width));
  return `${cells.join('  ').trimEnd()}\n`;
}

/** Resolves when the text has been written, so that output that nobody has read yet cannot fill the memory. */
function print(text: string): Promise<void> {
  return new Promise((resolve) => {
    process.stdout.write(text, () => {
      resolve();
    });
  });
}
