// The command that writes the contents of a store as lines of JSON: also beside its server, of a backup, or of a damaged store.
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { InvalidArgumentError, type Command } from 'commander';
import {
  type CollectionDefinition,
  messageOf,
  StorageError,
  type StoreContents,
  type StoredDocument,
  type Token,
} from '../../storage/core/interface.js';
import { openContents } from '../../storage/open.js';
import { makeFile } from '../../storage/sqlite/copy.js';
import { documentLine, keyText, lastLine, tokenLine } from './exported-lines.js';
import { CommandError } from '../start-errors.js';
import { countsOf, type StoreCommands, type StoreOptions } from './store-commands.js';

interface ExportOptions extends StoreOptions {
  subject?: string;
  tokens?: true;
}

/** An export in progress. */
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
      const contents = await openContents(commands.service, commands.urlOf(options));
      const exported: Export = { contents, subject: options.subject, counts: {}, gaps: [] };
      try {
        const parts = partsOf(exported, commands.service.collections, options.tokens === true);
        await (file === undefined ? writeTo(process.stdout, parts) : writeFile(file, parts));
      } finally {
        await contents.close();
      }
      const { counts, gaps } = exported;
      console.error(`Exported ${countsOf(counts)}${file === undefined ? '' : ` to ${file}`}.`);
      if (gaps.length > 0)
        throw new CommandError(['the store is damaged; what could be read was exported', ...gaps].join('\n'));
    });
}

/** Parses the subject of any documents, which may be that of an identity provider's tokens, or a shared one. */
function parseAnySubject(value: string): string {
  if (value !== '' && value.isWellFormed()) return value;
  throw new InvalidArgumentError('It must not be empty.');
}

/** The texts to write one after the other, each with whole lines. Tokens come first, so that they are valid first. */
async function* partsOf(
  exported: Export,
  collections: readonly CollectionDefinition[],
  hasTokens: boolean,
): AsyncGenerator<string> {
  let total = 0;
  async function* partsWith<T>(
    name: string,
    parts: AsyncIterable<readonly T[]>,
    toLine: (item: T) => string,
  ) {
    let count = 0;
    for await (const part of parts) {
      count += part.length;
      yield part.map((item) => `${toLine(item)}\n`).join('');
    }
    exported.counts[name] = count;
    total += count;
  }
  if (hasTokens) yield* partsWith('tokens', tokensOf(exported), tokenLine);
  for (const collection of collections.filter(({ isTransient }) => isTransient !== true))
    yield* partsWith(collection.name, documentsOf(exported, collection), (document: StoredDocument) =>
      documentLine(collection, document),
    );
  yield `${lastLine(total)}\n`;
}

async function* tokensOf({ contents, subject, gaps }: Export): AsyncGenerator<readonly Token[]> {
  let last = '';
  try {
    for (;;) {
      const tokens = await contents.tokens(last, subject);
      if (tokens.length === 0) return;
      yield tokens;
      last = tokens.at(-1)?.id ?? last;
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
  let after: StoredDocument | undefined;
  let before: StoredDocument | undefined;
  /** Reads what is left between them, up to damage. Resolves with its error. */
  const readRest = async function* (descending: boolean) {
    try {
      for (;;) {
        const documents = await contents.documents(collection, { subject, after, before, descending });
        if (documents.length === 0) return undefined;
        yield documents;
        if (descending) before = documents.at(-1);
        else after = documents.at(-1);
      }
    } catch (error) {
      if (!isDamage(error)) throw error;
      return error;
    }
  };
  const damage = yield* readRest(false);
  if (damage === undefined) return;
  yield* readRest(true);
  const from = after === undefined ? 'from the first one' : `after ${keyText(after)}`;
  const to = before === undefined ? 'up to the last one' : `before ${keyText(before)}`;
  gaps.push(`${collection.name} ${from} ${to} cannot be read: ${messageOf(damage)}`);
}

function isDamage(error: unknown): boolean {
  return error instanceof StorageError && error.failure === 'damaged';
}

async function writeTo(output: NodeJS.WriteStream, parts: AsyncIterable<string>): Promise<void> {
  for await (const part of parts) if (!output.write(part)) await once(output, 'drain');
}

/** Writes a file that only this user can read, and that has its name when it is complete and on the disk. */
async function writeFile(path: string, parts: AsyncIterable<string>): Promise<void> {
  if (existsSync(path)) throw new CommandError(`${path} already exists`);
  try {
    await makeFile(path, async (partial) => {
      const file = await open(partial, 'a');
      try {
        for await (const part of parts) await file.appendFile(part);
      } finally {
        await file.close();
      }
    });
  } catch (error) {
    if (error instanceof StorageError) throw error;
    throw new CommandError(`the file cannot be written: ${messageOf(error)}`, { cause: error });
  }
}
