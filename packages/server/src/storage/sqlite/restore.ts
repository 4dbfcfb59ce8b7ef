// Puts a backup in the place of a SQLite store: afterwards there is the one or the other, whatever interrupts it.
import { chmodSync, existsSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { backup as writeInto, DatabaseSync } from '@photostructure/sqlite';
import { StorageError, type StoreDefinition } from '../core/interface.js';
import { loadSchema, pendingMigrations } from '../core/migrations.js';
import { keptFor } from '../core/token-row.js';
import { checkIntegrity, copyInto, countDocuments, makeCopy, withNewFile, type Report } from './copy.js';
import { closeAsFarAsPossible, openDatabase, readFrom } from './database.js';
import { explain, isDamage, isFull, toSqliteError } from './failures.js';
import { giveToOwner, logOf, makeFolder, realPathOf, sizeOf, syncFolder, syncPath } from './files.js';
import { fileOf, isPostgres } from './location.js';
import { lockStore } from './lock.js';
import { finishReplacement, replaceFiles, replacementOf } from './replacement.js';
import { appliedIn, checkMark, checkOwner, hasTable, migrate } from './schema.js';

/** Options of a restore. */
interface RestoreOptions {
  /** Whether to do everything on a copy, and to change nothing. A server may run then. */
  readonly isDryRun: boolean;
  /** Whether tokens that the present store does not know stay valid. */
  readonly keepsTokens: boolean;
  readonly report: Report;
}

/** The result of a restore, or of a dry run. */
interface Restored {
  /** The number of documents of each collection, by its name. */
  readonly documents: Record<string, number>;
  /** The number of the backup's valid tokens that are revoked. */
  readonly revokedTokens: number;
  /** The path of a copy of the store that was there; undefined if there was none that could be copied, or in a dry run. */
  readonly saved?: string | undefined;
  /** The new name of the damaged database that was there. */
  readonly aside?: string | undefined;
}

/** One run of the command. Its paths are without symbolic links. */
interface Run extends RestoreOptions {
  readonly store: StoreDefinition;
  readonly database: string;
  readonly backup: string;
}

/** The tokens of the store that is there, by their ids: whether they are not revoked. */
type PresentTokens = ReadonlyMap<string, boolean>;

/**
 * Replaces the contents of a store by a backup. A token of the backup stays valid only if the present store has it as
 * valid; if that cannot be read, none does: so no token that was revoked since the backup becomes valid again.
 * @param url - The URL of the store, as for `openStorage`.
 * @param backup - The path of a copy of a store, with its log beside it if it has one.
 * @throws StorageError when the store is not a file, another process uses it, or the backup is damaged, is not one of the
 *   service, or needs a newer release. Then nothing has changed.
 */
export async function restore(
  store: StoreDefinition,
  url: string,
  backup: string,
  options: RestoreOptions,
): Promise<Restored> {
  if (isPostgres(url))
    throw new StorageError(
      'unavailable',
      'only a SQLite store can be restored; for PostgreSQL, use pg_restore',
    );
  const file = fileOf(url);
  try {
    const run = { ...options, store, database: realPathOf(file), backup: realPathOf(backup) };
    checkDifferent(run);
    return options.isDryRun ? await rehearse(run) : await replaceStore(run);
  } catch (error) {
    throw isFull(error) ? outOfSpace(file, backup, error) : toSqliteError(file, error);
  }
}

function outOfSpace(file: string, backup: string, cause: unknown): StorageError {
  const needed = Math.ceil((2 * sizeOf(backup) + sizeOf(file)) / 2 ** 20) + 1;
  const message = `the disk is full, and the store as it was: free ${needed} MiB on its disk, and try again`;
  return new StorageError('unavailable', message, { cause });
}

function checkDifferent({ backup, database }: Run): void {
  if (sizeOf(backup) === 0) throw new StorageError('unavailable', `there is no backup at ${backup}`);
  const [copy, present] = [backup, database].map((path) => statSync(path, { throwIfNoEntry: false }));
  if (copy?.ino === present?.ino && copy?.dev === present?.dev)
    throw new StorageError('unavailable', `${backup} is the store itself, not a backup`);
}

/** Restores a copy beside the backup, and brings its schema up to date, as a start would. */
async function rehearse(run: Run): Promise<Restored> {
  const copy = `${run.backup}.partial`;
  return withNewFile(copy, async () => {
    const restored = await prepareCopy(run, copy, presentTokens(run));
    const rehearsed = new DatabaseSync(copy);
    try {
      await migrate(loadSchema(run.store, 'sqlite'), rehearsed);
    } finally {
      rehearsed.close();
    }
    await checkIntegrity(copy);
    return restored;
  });
}

async function replaceStore(run: Run): Promise<Restored> {
  const { database } = run;
  makeFolder(dirname(database));
  finishReplacement(database);
  const lock = lockStore(database);
  try {
    const copy = `${replacementOf(database)}.partial`;
    // Left by a restore that was killed.
    rmSync(copy, { force: true });
    return await withNewFile(copy, async () => {
      const tokens = presentTokens(run);
      const restored = await prepareCopy(run, copy, tokens);
      const saved = tokens && (await save(run));
      if (saved !== undefined) await writeContent(run, copy);
      const aside = saved === undefined ? moveAside(run, copy) : undefined;
      await verify(run, restored, saved ?? aside);
      return { ...restored, saved, aside };
    });
  } finally {
    lock.release();
  }
}

/** Reads the store that is there. @returns Undefined, and reports it, if there is none, or it is damaged. */
function presentTokens(run: Run): PresentTokens | undefined {
  const { database, store } = run;
  if (sizeOf(database) === 0 && sizeOf(logOf(database)) === 0) {
    run.report(`There is no store at ${database}.`);
    return undefined;
  }
  try {
    return readFrom(database, (present) => {
      checkOwner(present, store.name);
      if (!hasTable(present, 'tokens')) return new Map();
      const rows = present.prepare('SELECT id, revoked_at IS NULL AS valid FROM tokens').all();
      return new Map((rows as { id: string; valid: number }[]).map(({ id, valid }) => [id, valid === 1]));
    });
  } catch (error) {
    reportDamage(run, error);
    return undefined;
  }
}

/** Reports that the store that is there is damaged. @throws The error, if it says something else. */
function reportDamage({ database, report }: Run, error: unknown): void {
  if (!isDamage(error)) throw error;
  report(`The store that is there is damaged: ${toSqliteError(database, error).message}.`);
}

/**
 * Checks the backup, copies it, and revokes tokens in the copy.
 * @param copy - The path of an empty file, which is on the disk afterwards.
 * @param tokens - Those of the store that is there; undefined if they cannot be read.
 * @throws StorageError when the backup cannot be restored.
 */
async function prepareCopy(run: Run, copy: string, tokens: PresentTokens | undefined): Promise<Restored> {
  const { store, backup, report } = run;
  report(`Checking ${backup}`);
  // Without a log or a journal, SQLite need not make a file beside the backup, whose folder may be write-protected.
  const isAlone = ['-wal', '-journal'].every((suffix) => sizeOf(`${backup}${suffix}`) === 0);
  const source = isAlone ? `${pathToFileURL(backup).href}?immutable=1` : backup;
  try {
    const documents = checkBackup(store, source);
    await checkIntegrity(source);
    report(`Copying ${backup}`);
    await copyInto({ source, target: copy }, statSync(backup).size, report);
    const revokedTokens = revokeTokens(run, copy, tokens);
    syncPath(copy);
    syncFolder(dirname(copy));
    return { documents, revokedTokens };
  } catch (error) {
    if (error instanceof StorageError || isFull(error)) throw error;
    throw new StorageError('unavailable', `${backup} cannot be restored: ${explain(error)}`, {
      cause: error,
    });
  }
}

/** @returns The number of documents of each collection. @throws Error unless this release can open the backup. */
function checkBackup(store: StoreDefinition, source: string): Restored['documents'] {
  const database = new DatabaseSync(source, { timeout: 5_000, readOnly: true });
  try {
    checkMark(database);
    const applied = appliedIn(database);
    if (applied.length === 0) throw new Error('it is no store');
    pendingMigrations(loadSchema(store, 'sqlite'), applied);
    return countDocuments(database, store);
  } finally {
    database.close();
  }
}

/** Revokes the valid tokens of a copy that must not be valid again. @returns How many there were. */
function revokeTokens({ keepsTokens }: Run, copy: string, tokens: PresentTokens = new Map()): number {
  const present = [...tokens].map(([id, valid]) => ({ id, valid }));
  const [ids, condition] = keepsTokens
    ? [present.filter(({ valid }) => !valid), 'IN']
    : [present.filter(({ valid }) => valid), 'NOT IN'];
  const database = new DatabaseSync(copy);
  try {
    const now = Date.now();
    const revoke = database.prepare(
      `UPDATE tokens SET revoked_at = ?, prune_at = min(prune_at, ?)
       WHERE revoked_at IS NULL AND id ${condition} (SELECT value ->> 'id' FROM json_each(?))`,
    );
    return revoke.run(now, now + keptFor, JSON.stringify(ids)).changes;
  } finally {
    database.close();
  }
}

/** Copies the store that is there. @returns The path of the copy; undefined if the store is too damaged for that. */
async function save(run: Run): Promise<string | undefined> {
  const { database, report } = run;
  const saved = freeName(`${database}-before-restore`);
  report(`Copying the store that is there to ${saved}`);
  try {
    await makeCopy(saved, async (partial) => {
      await copyInto({ source: database, target: partial }, statSync(database).size, report);
      giveToOwner(partial, database);
    });
    return saved;
  } catch (error) {
    reportDamage(run, error);
    return undefined;
  }
}

/** Writes a copy into a store in one transaction. Others may read meanwhile, and then see the old content. */
async function writeContent({ database, report }: Run, copy: string): Promise<void> {
  report(`Writing ${database}`);
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
    closeAsFarAsPossible(present);
  }
}

/**
 * Puts a copy in the place of a store that is missing or damaged. @returns The new name of the files that were there.
 */
function moveAside({ database, report }: Run, copy: string): string | undefined {
  report(`Putting the copy into place`);
  const aside = freeName(`${database}-damaged`);
  const isThere = [database, logOf(database)].some(existsSync);
  giveToOwner(copy, existsSync(database) ? database : dirname(database));
  if (existsSync(database)) chmodSync(copy, statSync(database).mode);
  replaceFiles(database, copy, aside);
  return isThere ? aside : undefined;
}

/** Returns a new name for files that are kept: with the time, and a number if another restore had the same second. */
function freeName(start: string): string {
  const name = `${start}-${new Date().toISOString().slice(0, 19).replace('T', '-').replaceAll(':', '')}`;
  const isTaken = (path: string) => [path, logOf(path)].some(existsSync);
  let free = name;
  for (let number = 2; isTaken(free); number++) free = `${name}-${number}`;
  return free;
}

/** @throws StorageError when the store is not what was restored. */
async function verify({ database, store, report }: Run, restored: Restored, old = 'nothing'): Promise<void> {
  report(`Checking ${database}`);
  try {
    await checkIntegrity(database);
    const documents = readFrom(database, (present) => countDocuments(present, store));
    if (JSON.stringify(documents) !== JSON.stringify(restored.documents))
      throw new Error(`it has ${JSON.stringify(documents)}, not ${JSON.stringify(restored.documents)}`);
  } catch (error) {
    throw new StorageError(
      'damaged',
      `${database} is not what was restored: ${explain(error)}. What was there: ${old}`,
      { cause: error },
    );
  }
}
