// The command that writes what a store has as lines of JSON: also beside its server, of a backup, or of a damaged store.
import { once } from 'node:events';
import { fstatSync } from 'node:fs';
import { type FileHandle, link, open, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { InvalidArgumentError, type Command } from 'commander';
import {
  type CollectionDefinition,
  type DocumentKey,
  messageOf,
  StorageError,
  type StoreContents,
  type StoredDocument,
} from '../../storage/core/interface.js';
import { openContents } from '../../storage/open.js';
import { documentLine, keyText, tokenLine } from './exported-lines.js';
import { createProgress } from './progress.js';
import { CommandError, printJson, type StoreCommands, type StoreOptions } from './store-commands.js';

interface ExportOptions extends StoreOptions {
  subject?: string;
  tokens?: true;
}

/** What of a store is exported, and what becomes of it. */
interface Export {
  readonly contents: StoreContents;
  readonly subject: string | undefined;
  /** The numbers of what was exported, by the names of collections, and `tokens`. */
  readonly counts: Record<string, number>;
  /** Sentences about what cannot be read. */
  readonly gaps: string[];
}

/** Adds the command `export`. */
export function addExportCommand(program: Command, commands: StoreCommands): void {
  commands
    .add(program, 'export')
    .description(
      'write documents as lines of JSON, while the server runs; --database also names a backup or a damaged store',
    )
    .argument('[file]', 'path of a new file, which only this user can read (default: standard output)')
    .option('--subject <subject>', 'only what belongs to this subject', parseAnySubject)
    .option('--tokens', 'also access tokens, by the hashes of their secrets')
    .action(async (file: string | undefined, options: ExportOptions) => {
      if (file === undefined && options.json)
        throw new CommandError('--json needs a file: standard output has the documents');
      if (file === undefined && options.tokens) requirePrivate(process.stdout.fd);
      const contents = await openContents(commands.service, commands.urlOf(options));
      const exported: Export = { contents, subject: options.subject, counts: {}, gaps: [] };
      try {
        const parts = partsOf(exported, commands.service.collections, options.tokens === true);
        await (file === undefined ? writeTo(process.stdout, parts) : writeFile(file, parts));
      } finally {
        await contents.close();
      }
      const { counts, gaps } = exported;
      const list = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
      console.error(`Exported ${list.join(', ')}${file === undefined ? '' : ` to ${file}`}.`);
      if (options.json) printJson({ file, ...counts, gaps });
      if (gaps.length > 0)
        throw new CommandError(['the store is damaged; what could be read was exported', ...gaps].join('\n'));
    });
}

/** Parses the subject of any documents, which may be that of an identity provider's tokens, or a shared one. */
function parseAnySubject(value: string): string {
  if (value !== '' && value.isWellFormed()) return value;
  throw new InvalidArgumentError('It must not be empty.');
}

/** @throws CommandError when others can read the file to which the shell has redirected the output. */
function requirePrivate(descriptor: number): void {
  const output = fstatSync(descriptor);
  if (output.isFile() && (output.mode & 0o077) !== 0)
    throw new CommandError('others could read the tokens: name the file instead of redirecting the output');
}

/** The texts to write one after the other, each with whole lines. Tokens come first, so that they are valid first. */
async function* partsOf(
  exported: Export,
  collections: readonly CollectionDefinition[],
  hasTokens: boolean,
): AsyncGenerator<string> {
  const count = (name: string, lines: readonly string[]) => {
    exported.counts[name] = (exported.counts[name] ?? 0) + lines.length;
    return lines.map((line) => `${line}\n`).join('');
  };
  const progress = createProgress();
  try {
    if (hasTokens) for await (const lines of tokenLines(exported)) yield count('tokens', lines);
    for (const collection of collections.filter(({ isTransient }) => isTransient !== true)) {
      count(collection.name, []);
      for await (const documents of documentsOf(exported, collection)) {
        progress.add(documents.length);
        yield count(
          collection.name,
          documents.map((document) => documentLine(collection, document)),
        );
      }
    }
  } finally {
    progress.end();
  }
}

async function* tokenLines({ contents, subject, gaps, counts }: Export): AsyncGenerator<string[]> {
  counts['tokens'] = 0;
  let last = '';
  try {
    for (;;) {
      const tokens = await contents.tokens(last);
      if (tokens.length === 0) return;
      last = tokens.at(-1)?.id ?? last;
      yield tokens.filter((token) => token.subject === (subject ?? token.subject)).map(tokenLine);
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    gaps.push(`tokens after ${last === '' ? 'the first one' : last} cannot be read: ${messageOf(error)}`);
  }
}

/** Reads the documents of a collection up to damage, and then those behind it, from the end. */
async function* documentsOf(
  { contents, subject, gaps }: Export,
  collection: CollectionDefinition,
): AsyncGenerator<readonly StoredDocument[]> {
  const read = (after: DocumentKey | undefined, descending: boolean) => {
    if (subject === undefined) return contents.storedOfAll(collection, { after, descending });
    const end = after && { [descending ? 'before' : 'after']: after.id };
    return contents.stored(collection, subject, { ...end, descending });
  };
  let last: StoredDocument | undefined;
  let first: StoredDocument | undefined;
  try {
    for (;;) {
      const documents = await read(last, false);
      if (documents.length === 0) return;
      yield documents;
      last = documents.at(-1);
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    try {
      for (let goesOn = true; goesOn;) {
        const documents = await read(first, true);
        const others = documents.filter((document) => last === undefined || isBehind(document, last));
        if (others.length > 0) yield others;
        goesOn = documents.length > 0 && others.length === documents.length;
        first = others.at(-1) ?? first;
      }
    } catch (other) {
      if (!isDamage(other)) throw other;
    }
    const from = last === undefined ? 'from the first one' : `after ${keyText(last)}`;
    const to = first === undefined ? 'up to the last one' : `before ${keyText(first)}`;
    gaps.push(`${collection.name} ${from} ${to} cannot be read: ${messageOf(error)}`);
  }
}

/** Whether a document comes after another one, in the order of SQLite. */
function isBehind(document: DocumentKey, other: DocumentKey): boolean {
  const order = byBytes(document.subject, other.subject);
  if (order !== 0) return order > 0;
  const { id } = document;
  return typeof id === 'string' ? byBytes(id, String(other.id)) > 0 : id > BigInt(other.id);
}

function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function isDamage(error: unknown): boolean {
  return error instanceof StorageError && error.failure === 'damaged';
}

async function writeTo(output: NodeJS.WriteStream, parts: AsyncIterable<string>): Promise<void> {
  for await (const part of parts) if (!output.write(part)) await once(output, 'drain');
}

/** Writes a file that only this user can read, and that has its name when it is complete and on the disk. */
async function writeFile(path: string, parts: AsyncIterable<string>): Promise<void> {
  const partial = `${path}.partial`;
  let file: FileHandle | undefined;
  try {
    await requireAbsent(path);
    file = await open(partial, 'wx', 0o600);
    for await (const part of parts) await file.appendFile(part);
    await file.sync();
    // Unlike a rename, a link does not replace a file that another process has created in the meantime.
    await link(partial, path);
    const folder = await open(dirname(path), 'r');
    await folder.sync().finally(() => folder.close());
  } catch (error) {
    if (error instanceof StorageError || error instanceof CommandError) throw error;
    throw new CommandError(`the file cannot be written: ${messageOf(error)}`, { cause: error });
  } finally {
    await file?.close();
    if (file !== undefined) await rm(partial, { force: true });
  }
}

/** @throws CommandError when there is a file, before much is read. */
async function requireAbsent(path: string): Promise<void> {
  const file = await open(path, 'r').catch(() => undefined);
  await file?.close();
  if (file !== undefined) throw new CommandError(`${path} already exists`);
}
