#!/usr/bin/env node
// The command of the service: runs the server, manages access tokens, and migrates and backs up a store.
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { ConfigError, readDatabaseUrl } from './config.js';
import { type Storage, StorageError, type Token } from './storage/interface.js';
import { isSubject, issueToken } from './http/security/access-token.js';
import { addContractCommand } from './process/contract-command.js';
import { service } from './service.js';
import { describeStore, migrateStorage, openExistingStorage } from './storage/open.js';
import { backUp } from './storage/sqlite/backup.js';
import { version } from './version.js';

/** The options of every command that uses a store. */
interface StoreOptions {
  database?: string;
  json?: true;
}

const states = ['valid', 'expired', 'revoked'] as const;

/** An error that the command reports by its message alone. */
class CommandError extends Error {}

// A reader such as `head` may close the pipe early.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

const { name: command, scopes } = service;
const program = new Command(command)
  .description(`Runs the server of ${command}, and manages its access tokens and data.`)
  .version(version)
  .showHelpAfterError('Run with --help for usage.')
  .configureOutput({
    outputError: (text, write) => {
      write(text.replace(/^error: /, `${command}: `));
    },
  })
  .addHelpText(
    'after',
    `
Environment:
  DATABASE_URL     URL of the store, unless --database is given (default: ${service.databaseUrl})
  docs/configuration.md lists all variables.

Examples:
  $ ${command} serve --port 8080
  $ ${command} token create alice
  $ ${command} token create ci --scope ${scopes[0]} --expires 90d
  $ ${command} token list --state valid --json
  $ DATABASE_URL=postgres://user@db.example/database ${command} migrate`,
  );

program
  .command('serve')
  .description(`run the server; "${command} serve --help" lists its options`)
  // The server reads its own options (src/main.ts).
  .helpOption(false)
  .allowUnknownOption()
  .allowExcessArguments()
  .action(async () => {
    process.argv.splice(process.argv.indexOf('serve'), 1);
    await import('./main.js');
  });

forStore(program.command('migrate'))
  .description('create the store or bring its schema up to date; safe to run concurrently')
  .action(async (options: StoreOptions) => {
    const url = storeOf(options);
    const { applied: steps, grants } = await migrateStorage(service, url);
    const applied = steps.map(({ version, name }) => ({ version, name }));
    if (options.json) printJson({ applied, grants });
    for (const { version, name } of applied) console.error(`Applied migration ${version}: ${name}.`);
    if (applied.length === 0) console.error('The schema is up to date.');
    if (grants.length > 0) console.error('A role of the service that does not own the tables needs:');
    for (const grant of grants) console.error(`  ${grant};`);
  });

const token = program.command('token').description('create, list, revoke and prune access tokens');

forStore(token.command('create'))
  .description('create a token and print it to standard output; it cannot be shown again')
  .argument('<subject>', 'owner of the data that the token gives access to', parseSubject)
  .addOption(
    new Option('--scope <scope>', 'scope of the token; may be repeated (default: all scopes)')
      .choices(scopes)
      // Replaces the parser that choices() sets, which keeps only the last value.
      .argParser(collectScope),
  )
  .option(
    '--expires <duration>',
    'lifetime: a number followed by s, m, h, d or w, such as 90d (default: never expires)',
    parseDuration,
  )
  .action(async (subject: string, options: StoreOptions & { scope?: string[]; expires?: number }) => {
    await withStorage(options, async ({ tokens }) => {
      const now = Date.now();
      const { token, secret } = await issueToken(tokens, {
        prefix: service.tokenPrefix,
        subject,
        scopes: scopes.filter((scope) => options.scope?.includes(scope) ?? true),
        now,
        expiresAt: options.expires === undefined ? undefined : now + options.expires,
      });
      const { id, scopes: allowed, expires } = describe(token);
      const expiry = expires === null ? 'does not expire' : `expires ${expires}`;
      console.error(`Token ${id} for subject ${JSON.stringify(subject)}: ${allowed.join(' ')}, ${expiry}.`);
      if (options.json) printJson({ ...describe(token), token: secret });
      else console.log(secret);
    });
  });

forStore(token.command('list'))
  .description('list tokens, oldest first; secrets are not stored and cannot be shown')
  .option('--subject <subject>', 'only tokens of this subject', parseSubject)
  .addOption(new Option('--state <state>', 'only tokens in this state').choices(states))
  .action(async (options: StoreOptions & { subject?: string; state?: (typeof states)[number] }) => {
    await withStorage(options, async ({ tokens }) => {
      const { subject, state } = options;
      const found = (await tokens.list())
        .map(describe)
        .filter((one) => (subject ?? one.subject) === one.subject && (state ?? one.state) === one.state);
      if (options.json) printJson(found);
      else if (found.length > 0) printTable(found);
      else if (subject !== undefined || state !== undefined) console.error('No tokens match.');
      else console.error(`There are no tokens. To create one, run: ${command} token create SUBJECT`);
    });
  });

forStore(token.command('revoke'))
  .description('revoke a token; takes effect within 5 seconds')
  .argument('<id>', 'id of the token, as shown by "token create" and "token list"')
  .action(async (id: string, options: StoreOptions) => {
    await withStorage(options, async ({ tokens }) => {
      if (!(await tokens.revoke(id, Date.now())))
        throw new CommandError(`no token has the id ${JSON.stringify(id)}`);
      console.error(`Token ${id} is revoked.`);
      if (options.json) printJson((await tokens.list()).filter((one) => one.id === id).map(describe)[0]);
    });
  });

forStore(token.command('prune'))
  .description('delete revoked and expired tokens')
  .action(async (options: StoreOptions) => {
    await withStorage(options, async ({ tokens }) => {
      const deleted = await tokens.prune(Date.now());
      console.error(`Deleted ${deleted} ${deleted === 1 ? 'token' : 'tokens'}.`);
      if (options.json) printJson({ deleted });
    });
  });

forStore(program.command('backup'))
  .description('copy a SQLite store to a new file while the server runs; for PostgreSQL, use pg_dump')
  .argument('<file>', 'path of the copy; must not exist yet')
  .action((file: string, options: StoreOptions) => {
    const { documents, bytes } = backUp(service, storeOf(options), file);
    const counts = Object.entries(documents).map(([name, count]) => `${count} ${name}`);
    console.error(`Copied ${counts.join(', ')} (${bytes} bytes) to ${file} and checked the copy.`);
    if (options.json) printJson({ file, ...documents, bytes });
  });

addContractCommand(program);

try {
  await program.parseAsync();
} catch (error) {
  const known =
    error instanceof CommandError || error instanceof ConfigError || error instanceof StorageError;
  // Node.js reports a bug in the program with its stack.
  if (!known || error instanceof CommanderError) throw error;
  for (const line of error.message.split('\n')) console.error(`${command}: ${line}`);
  process.exitCode = 1;
}

function forStore(command: Command): Command {
  return command
    .option(
      '--database <url>',
      `URL of the store, file:PATH or postgres://… (default: $DATABASE_URL, or ${service.databaseUrl})`,
    )
    .option('--json', 'print the result as JSON to standard output');
}

/** Prints which store a command uses, and returns its URL. */
function storeOf({ database }: StoreOptions): string {
  const url = readDatabaseUrl(database === undefined ? process.env : { DATABASE_URL: database }, service);
  console.error(`Store: ${describeStore(url)}`);
  return url;
}

async function withStorage(options: StoreOptions, use: (storage: Storage) => Promise<void>): Promise<void> {
  const storage = await openExistingStorage(service, storeOf(options));
  try {
    await use(storage);
  } finally {
    await storage.close();
  }
}

function parseSubject(value: string): string {
  if (isSubject(value)) return value;
  throw new InvalidArgumentError('It must have 1 to 255 characters and no control characters.');
}

function collectScope(value: string, previous: string[] = []): string[] {
  const scope = scopes.find((known) => known === value);
  if (scope === undefined) throw new InvalidArgumentError(`Allowed choices are ${scopes.join(', ')}.`);
  return [...previous, scope];
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
function describe({ id, subject, scopes, createdAt, expiresAt, revokedAt }: Token) {
  const time = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString());
  const expired = expiresAt !== undefined && expiresAt <= Date.now();
  const state: (typeof states)[number] = revokedAt !== undefined ? 'revoked' : expired ? 'expired' : 'valid';
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

function printJson(value: unknown): void {
  console.log(JSON.stringify(value, undefined, 2));
}

function printTable(tokens: ReturnType<typeof describe>[]): void {
  const columns = ['id', 'subject', 'scopes', 'created', 'expires', 'state'] as const;
  const rows = [
    columns.map((name) => name.toUpperCase()),
    ...tokens.map((token) =>
      columns.map((name) => (name === 'scopes' ? token.scopes.join(' ') : (token[name] ?? 'never'))),
    ),
  ];
  const widths = columns.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  for (const row of rows)
    console.log(
      row
        .map((cell, i) => cell.padEnd(widths[i]!))
        .join('  ')
        .trimEnd(),
    );
}
