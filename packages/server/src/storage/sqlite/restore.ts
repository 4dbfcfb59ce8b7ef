// Puts a backup in the place of a SQLite store: afterwards there is the one or the other, whatever interrupts it.
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { backup as writeInto, DatabaseSync } from '@photostructure/sqlite';
import { deletedFiles, messageOf, StorageError, type StoreDefinition } from '../core/interface.js';
import { loadSchema } from '../core/migrations.js';
import { copyInto, makeCopy, withNewFile } from './copy.js';
import { closeWithCheckpoint, hasTable, migrate, openDatabase, readFrom } from './database.js';
import { isDamage, toSqliteError } from './failures.js';
import { fileOf, giveToOwner, isPostgres, logOf, makeFolder, realPathOf, sizeOf, syncPath } from './files.js';
import { finishReplacement, lockStore, replaceFiles, timeOf } from './lock.js';

interface RestoreOptions {
  /** Whether to only make the copy that would be restored, and to change nothing. A server may run then. */
  readonly isDryRun: boolean;
  /** Whether tokens that the present store does not know stay valid. */
  readonly keepsTokens: boolean;
}

/** The result of a restore, or of a dry run. */
interface Restored {
  /** The number of the backup's valid tokens that are revoked. */
  readonly revokedTokens: number;
  /** The reason why the previous store could not be read: it was missing or damaged. */
  readonly fault?: string | undefined;
  /** The path of a copy of the store that was there; undefined if there was none that could be copied, or in a dry run. */
  readonly saved?: string | undefined;
  /** The new name of the damaged database that was there. */
  readonly aside?: string | undefined;
}

/** One run of the command. Its paths are without symbolic links. */
interface Run extends Omit<RestoreOptions, 'isDryRun'> {
  readonly store: StoreDefinition;
  readonly database: string;
  readonly backup: string;
}

/**
 * Replaces the contents of a store by a backup, and brings its schema up to date. A token of the backup stays valid only if
 * the present store has it as valid; if that cannot be read, none does: so no token that was revoked since the backup
 * becomes valid again.
 * @param url - The URL of the store, as for `openStorage`.
 * @param path - The path of a copy of a store, with its log beside it if it has one.
 * @throws StorageError when the store is not a file, another process uses it, or the backup is damaged, is not one of the
 *   service, or needs a newer release. Then nothing has changed.
 */
export async function restore(
  store: StoreDefinition,
  url: string,
  path: string,
  { isDryRun, keepsTokens }: RestoreOptions,
): Promise<Restored> {
  if (isPostgres(url)) throw refusal('only a SQLite store can be restored; for PostgreSQL, use pg_restore');
  const file = fileOf(url);
  try {
    const [database, backup] = [realPathOf(file), realPathOf(path)];
    if (sizeOf(backup) === 0) throw refusal(`${backup} is missing or empty, and so no backup`);
    if (backup === database) throw refusal(`${backup} is the store itself, not a backup`);
    const run = { store, database, backup, keepsTokens };
    if (isDryRun) return await withNewFile(backup, (copy) => fillCopy(run, copy));
    makeFolder(dirname(database));
    finishReplacement(database);
    const release = lockStore(database);
    try {
      return await withNewFile(database, (copy) => replaceStore(run, copy));
    } finally {
      release();
    }
  } catch (error) {
    throw toSqliteError(file, error);
  }
}

function refusal(reason: string, cause?: unknown): StorageError {
  return new StorageError('unavailable', reason, { cause });
}

async function replaceStore(run: Run, copy: string): Promise<Restored> {
  const { database } = run;
  const restored = await fillCopy(run, copy);
  const saved = `${database}-before-restore-${timeOf(new Date())}`;
  try {
    if (restored.fault === undefined) {
      await makeCopy(saved, database);
      giveToOwner(saved, database);
      await writeContent(database, copy);
      return { ...restored, saved };
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
  }
  return { ...restored, aside: replaceFiles(database, copy) };
}

/**
 * Reads the store that is there: the ids of its valid tokens as JSON, or of its revoked ones if others stay valid.
 * @returns Those, and the reason why it cannot be read, if that is so.
 * @throws Error if it can be read, but must not be replaced.
 */
function readPresent({ database, store, keepsTokens }: Run): { tokens: string; fault?: string } {
  if (sizeOf(database) === 0 && sizeOf(logOf(database)) === 0)
    return { tokens: '[]', fault: `There is no store at ${database}. ${deletedFiles}.` };
  try {
    return readFrom(database, store.name, (present) => {
      if (!hasTable(present, 'tokens')) throw new StorageError('damaged', 'it has no tokens');
      const ids = `SELECT json_group_array(id) AS tokens FROM tokens WHERE (revoked_at IS NULL) = ${!keepsTokens}`;
      return present.prepare(ids).get() as { tokens: string };
    });
  } catch (error) {
    if (!isDamage(error)) throw error;
    const fault = `The store that is there is damaged: ${toSqliteError(database, error).message}.`;
    return { tokens: '[]', fault };
  }
}

/**
 * Copies the backup, brings the copy up to date, as a start would, and revokes tokens in it.
 * @param copy - The path of an empty file, which is on the disk afterwards.
 * @throws StorageError when the backup cannot be restored.
 */
async function fillCopy(run: Run, copy: string): Promise<Restored> {
  const { store, backup, keepsTokens } = run;
  const { tokens, fault } = readPresent(run);
  // Without a log, SQLite need not make a file beside the backup, whose folder may be write-protected.
  const isAlone = sizeOf(logOf(backup)) === 0;
  try {
    await copyInto(isAlone ? `${pathToFileURL(backup).href}?immutable=1` : backup, copy);
    const database = new DatabaseSync(copy);
    try {
      if (!hasTable(database, 'migrations')) throw new Error('it is not a backup of this service');
      await migrate(loadSchema(store, 'sqlite'), database);
      const revoke = database.prepare(
        `UPDATE tokens SET revoked_at = ?
         WHERE revoked_at IS NULL AND id ${keepsTokens ? 'IN' : 'NOT IN'} (SELECT value FROM json_each(?))`,
      );
      return { revokedTokens: revoke.run(Date.now(), tokens).changes, fault };
    } finally {
      database.close();
      syncPath(copy);
    }
  } catch (error) {
    if (error instanceof StorageError) throw error;
    const advice = messageOf(error) === 'file is not a database' ? '; "import" reads an export' : '';
    throw refusal(`${backup} cannot be restored: ${messageOf(error)}${advice}`, error);
  }
}

/** Writes a copy into a store in one transaction. Others may read meanwhile, and then see the old content. */
async function writeContent(database: string, copy: string): Promise<void> {
  // While this is open, the connection that writes is not the last one, which would move the log when it is closed.
  const present = openDatabase(database, false);
  const source = new DatabaseSync(copy, { readOnly: true });
  try {
    // The backup interface would wait for ever.
    present.exec('BEGIN IMMEDIATE; ROLLBACK');
    await writeInto(source, database, { rate: 1_000 });
    // It does not sync its commit.
    syncPath(logOf(database));
  } finally {
    source.close();
    closeWithCheckpoint(present);
  }
}
