// Checks, before anything is created, that a store is whole, or that there is none, and that it still is once it is open.
import { existsSync, rmSync } from 'node:fs';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { madeBeforeReleases } from '../core/migrations.js';
import { birthOf, existing, identityOf, logOf, overwritten, realPathOf, sizeOf } from './file/files.js';
import { lastServerOf } from './file/lock.js';
import { hasContent, indexOf, indexShowsWrites, mayHaveHadLog } from './file/write-ahead-log.js';

/**
 * Checks that the log beside a database is its own: SQLite would write any other one into it.
 * @param path - The path of the database, without symbolic links.
 * @param runs - The numbers of the last server's run; none if they are not known.
 * @param isInUse - Whether that server runs.
 * @throws Error that says what to do.
 */
export function checkPair(path: string, runs: readonly number[], isInUse = false): void {
  const log = logOf(path);
  const isPair = () => mayHaveHadLog(path, log, runs);
  // A server may begin its run between two looks at its files.
  if (isPair() || (isInUse && isPair())) return;
  if (isInUse) throw overwritten(path);
  throw new Error(
    `${path} was put in the place of another database, which had acknowledged writes in ${log}: put that database back, ` +
      `or move ${log} and ${indexOf(path)} away to use this one without them`,
  );
}

/**
 * Checks that a file is a whole store, or that one may be created there. Where a database or its log is missing, SQLite
 * would begin an empty one and delete what remains of the other, with the writes in it.
 * @returns The path without symbolic links.
 * @throws Error that says what is missing, what remains of it, and what to do.
 */
export function checkStore(file: string): string {
  const path = realPathOf(file);
  const log = logOf(path);
  if (sizeOf(path) > 0) checkLog(path);
  else if (sizeOf(log) > 0)
    throw new Error(
      `${path} is missing, but not ${log}: put it back, or move the log away to begin an empty store`,
    );
  return path;
}

function checkLog(database: string): void {
  const [log, index] = [logOf(database), indexOf(database)];
  const isMissing = () => !existsSync(log) && existsSync(index) && !lastServerOf(database).isClosed;
  const isLost = () => isMissing() || (!hasContent(log) && indexShowsWrites(index));
  // What opens a store without its log begins an empty one. As long as a server runs, the index stays as it was. SQLite makes
  // the log before its index, and removes it after; a server may do either between two of these looks.
  if (isLost() && isLost())
    throw new Error(
      `${log} is ${existsSync(log) ? 'empty' : 'missing'}, but its index, ${index}, shows that it had writes: ` +
        `put it back, since they may have been acknowledged, or delete ${index} to continue without them`,
    );
}

/** The number that every release has in the stores that it begins; no other program should use it. */
export const applicationId = 0x63747372;

/** @throws Error when a database is not empty, and no release has begun it. */
function checkMark(database: DatabaseSyncInstance): void {
  database.function('refuse', () => {
    throw new Error(madeBeforeReleases('sqlite3'));
  });
  // A prepared statement would keep the connection open after it was closed.
  database.exec(`SELECT refuse() FROM pragma_application_id
    WHERE application_id <> ${applicationId} AND EXISTS (SELECT 1 FROM sqlite_schema)`);
}

/**
 * Opens a store that is whole, and reads from it. If its log is deleted after the check, SQLite begins an empty one when
 * it first reads; then this fails, and leaves what shows that the log is missing.
 * @param file - The path. The file must exist.
 * @param open - Opens a connection.
 * @throws Error as `checkStore`, or when no release has begun the store. Then nothing has changed.
 */
export function openWhole(
  file: string,
  readOnly: boolean,
  open = (path: string, readOnly: boolean) =>
    new DatabaseSync(readOnly ? path : existing(path), { timeout: 5_000, readOnly }),
): DatabaseSyncInstance {
  const path = realPathOf(file);
  const before = logIdentities(path);
  checkStore(file);
  // Without a log, there is none to lose. And a reader could not roll back what a power failure has left without one.
  const hasLog = before.log !== undefined;
  // Other than a writer, it deletes nothing when it is closed. While it is open, nobody makes the index anew.
  const reader = open(path, readOnly || hasLog);
  let writer: DatabaseSyncInstance | undefined;
  try {
    if (hasLog) read(reader, path, before);
    checkMark(reader);
    if (readOnly || !hasLog) return reader;
    writer = open(path, false);
    read(writer, path, before);
  } catch (error) {
    writer?.close();
    reader.close();
    if (error instanceof DeletedLog) showMissing(path);
    throw error;
  }
  reader.close();
  return writer;
}

/** What identifies the log and its index. When the last connection is closed, SQLite deletes both. */
function logIdentities(path: string) {
  return { log: identityOf(logOf(path)), index: birthOf(indexOf(path)) };
}

/** A log that was deleted, but not by SQLite. */
class DeletedLog extends Error {}

/** Opens the log. No statement remains, which would keep a connection open after it was closed. */
function read(database: DatabaseSyncInstance, path: string, before: ReturnType<typeof logIdentities>): void {
  const isDeleted = () => {
    const { log, index } = logIdentities(path);
    // A file system may give a file another identity when it is first written, with its content.
    const isGone = log === undefined || (log !== before.log && !hasContent(logOf(path)));
    return isGone && index !== undefined && index === before.index;
  };
  try {
    database.exec('SELECT count(*) FROM sqlite_schema');
  } catch (error) {
    if (!isDeleted()) throw error;
  }
  if (isDeleted()) throw new DeletedLog(`${logOf(path)} was deleted while it was opened`);
}

/**
 * Leaves a store whose log was deleted while it was opened so that the next check finds that.
 * @throws Error as `checkStore`.
 */
function showMissing(path: string): void {
  checkStore(path);
  // The index is made anew where no server runs, and shows nothing. Without a log, it does.
  if (sizeOf(logOf(path)) === 0) rmSync(logOf(path), { force: true });
  checkStore(path);
}
