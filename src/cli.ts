#!/usr/bin/env node
// The command plant-store: tokens, and the server for those who start it from the package.
import { version } from './version.js';
import { Command, InvalidArgumentError, Option } from 'commander';
import { ConfigError, readConfig } from './config.js';
import { StorageError, type Storage } from './domain/storage.js';
import { scopes, type Scope, type Token } from './domain/tokens.js';
import { isSubject, issueToken } from './http/security/access-token.js';
import { migrateStorage, openStorage } from './storage/open.js';
import { backUp } from './storage/sqlite/backup.js';

const program = new Command('plant-store')
  .description(
    'A small store of plants behind a REST API. The environment configures it, as the README tells.',
  )
  .version(version)
  .showHelpAfterError('(--help tells more)');

program
  .command('serve')
  .description('run the server')
  .option('--dev', 'make a first token when there is none, on a loopback address only')
  .action(async () => {
    // It reads --dev from the command line itself.
    await import('./main.js');
  });

program
  .command('migrate')
  .description(
    'bring the schema of the database up to date; several at a time are safe (a file brings itself up to date)',
  )
  .action(async () => {
    const applied = await migrateStorage(readConfig(process.env).DATABASE_URL);
    for (const { version, name } of applied) console.error(`Applied migration ${version}, ${name}.`);
    if (applied.length === 0) console.error('The schema is up to date.');
  });

const token = program.command('token').description('give out, list and revoke access tokens');

token
  .command('create')
  .description('make a token and print it, alone, on standard output; it is shown this once')
  .argument('<subject>', 'whose plants the token gives access to', parseSubject)
  .addOption(
    new Option('--scope <scope...>', 'what the token allows').choices(scopes).default([...scopes], 'both'),
  )
  .option(
    '--expires <duration>',
    'when it expires: a number and s, m, h, d or w, as 90d (default: never)',
    parseDuration,
  )
  .action(async (subject: string, options: { scope: Scope[]; expires?: number }) => {
    await withStorage(async ({ tokens }) => {
      const now = Date.now();
      const { token, secret } = await issueToken(tokens, {
        subject,
        scopes: scopes.filter((scope) => options.scope.includes(scope)),
        now,
        expiresAt: options.expires === undefined ? undefined : now + options.expires,
      });
      console.error(
        `Token ${token.id} for subject ${JSON.stringify(subject)}, scopes ${token.scopes.join(' ')}, expires ${time(token.expiresAt, 'never')}:`,
      );
      console.log(secret);
    });
  });

token
  .command('list')
  .description('list all tokens, the oldest first; secrets are not kept and so not shown')
  .option('--json', 'as a JSON array')
  .action(async (options: { json?: true }) => {
    await withStorage(async ({ tokens }) => {
      const all = (await tokens.list()).map(describe);
      if (options.json) console.log(JSON.stringify(all, undefined, 2));
      else if (all.length === 0)
        console.error('There are no tokens yet: plant-store token create SUBJECT makes one.');
      else printTable(all);
    });
  });

token
  .command('revoke')
  .description('revoke a token: requests with it are refused within 5 seconds')
  .argument('<id>', 'the id that "token create" and "token list" tell')
  .action(async (id: string) => {
    await withStorage(async ({ tokens }) => {
      if (!(await tokens.revoke(id, Date.now())))
        throw new CommandError(`there is no token ${JSON.stringify(id)}`);
      console.error(`Token ${id} is revoked.`);
    });
  });

program
  .command('backup')
  .description('copy the store to a new file, while the server runs; for PostgreSQL use pg_dump')
  .argument('<file>', 'the path of the copy, which must not exist yet')
  .action((file: string) => {
    const { plants, bytes } = backUp(readConfig(process.env).DATABASE_URL, file);
    console.error(`Copied ${plants} plants to ${file} (${bytes} bytes), and checked the copy.`);
  });

/** What went wrong, for the person at the terminal. */
class CommandError extends Error {}

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommandError || error instanceof ConfigError || error instanceof StorageError))
    throw error;
  console.error(`plant-store: ${error.message}`);
  process.exitCode = 1;
}

async function withStorage(use: (storage: Storage) => Promise<void>): Promise<void> {
  const storage = await openStorage(readConfig(process.env).DATABASE_URL);
  try {
    await use(storage);
  } finally {
    await storage.close();
  }
}

function parseSubject(value: string): string {
  if (isSubject(value)) return value;
  throw new InvalidArgumentError('It must have 1 to 255 characters, and no control characters.');
}

/** A duration in milliseconds, from a number and a unit. */
function parseDuration(value: string): number {
  const units: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };
  const [, amount, unit] = /^([1-9]\d{0,8})([smhdw])$/.exec(value) ?? [];
  if (amount === undefined)
    throw new InvalidArgumentError('It must be a number and s, m, h, d or w, as 90d.');
  const duration = Number(amount) * units[unit!]! * 1000;
  // The last moment that a Date can hold.
  if (Date.now() + duration > 8.64e15) throw new InvalidArgumentError('It is too long.');
  return duration;
}

function time(at: number | undefined, otherwise: string): string {
  return at === undefined ? otherwise : new Date(at).toISOString();
}

function describe({ id, subject, scopes, createdAt, expiresAt, revokedAt }: Token) {
  const expired = expiresAt !== undefined && expiresAt <= Date.now();
  return {
    id,
    subject,
    scopes: scopes.join(' '),
    created: time(createdAt, ''),
    expires: time(expiresAt, 'never'),
    state: revokedAt !== undefined ? 'revoked' : expired ? 'expired' : 'valid',
  };
}

function printTable(rows: Record<string, string>[]): void {
  const names = Object.keys(rows[0]!);
  const lines = [Object.fromEntries(names.map((name) => [name, name.toUpperCase()])), ...rows];
  const widths = names.map((name) => Math.max(...lines.map((line) => line[name]!.length)));
  for (const line of lines)
    console.log(
      names
        .map((name, i) => line[name]!.padEnd(widths[i]!))
        .join('  ')
        .trimEnd(),
    );
}
