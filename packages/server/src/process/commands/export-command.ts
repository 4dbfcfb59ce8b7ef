// The command that writes the contents of a store as lines of JSON: also beside its server, of a backup, or of a damaged store.
import { once } from 'node:events';
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
    .option('--subject <subject>', 'only what belongs to this subject', parseAnySubject)
    .option('--tokens', 'also access tokens, by the hashes of their secrets')
    .action(async (options: ExportOptions) => {
      const contents = await openContents(commands.service, commands.urlOf(options));
      const exported: Export = { contents, subject: options.subject, counts: {}, gaps: [] };
      const { counts, gaps } = exported;
      try {
        for await (const lines of partsOf(exported, commands.service.collections, options.tokens))
          if (!process.stdout.write(lines)) await once(process.stdout, 'drain');
      } finally {
        await contents.close();
      }
      console.error(`Exported ${countsOf(counts)}.`);
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
  hasTokens = false,
): AsyncGenerator<string> {
  const { counts } = exported;
  async function* linesOf<T>(name: string, pages: AsyncIterable<readonly T[]>, lineOf: (item: T) => string) {
    counts[name] = 0;
    for await (const page of pages) {
      counts[name] += page.length;
      yield page.map((item) => `${lineOf(item)}\n`).join('');
    }
  }
  if (hasTokens) yield* linesOf('tokens', tokensOf(exported), tokenLine);
  for (const collection of collections.filter(({ isTransient }) => isTransient !== true))
    yield* linesOf(collection.name, documentsOf(exported, collection), (document) =>
      documentLine(collection, document),
    );
  yield `${lastLine(Object.values(counts).reduce((sum, count) => sum + count, 0))}\n`;
}

/** Reads pages up to the last one, or to damage. Resolves with its error. */
async function* untilDamage<T>(next: () => Promise<readonly T[]>): AsyncGenerator<readonly T[], unknown> {
  try {
    for (let page = await next(); page.length > 0; page = await next()) yield page;
    return undefined;
  } catch (error) {
    if (error instanceof StorageError && error.failure === 'damaged') return error;
    throw error;
  }
}

async function* tokensOf({ contents, subject, gaps }: Export): AsyncGenerator<readonly Token[]> {
  let last = '';
  const damage = yield* untilDamage(async () => {
    const tokens = await contents.tokens(last, subject);
    last = tokens.at(-1)?.id ?? last;
    return tokens;
  });
  if (damage !== undefined)
    gaps.push(`tokens after ${last === '' ? 'the first one' : last} cannot be read: ${messageOf(damage)}`);
}

/** Reads the documents of a collection up to damage, and then those behind it, from the end. */
async function* documentsOf(
  { contents, subject, gaps }: Export,
  collection: CollectionDefinition,
): AsyncGenerator<readonly StoredDocument[]> {
  let after: StoredDocument | undefined;
  let before: StoredDocument | undefined;
  const readRest = (descending: boolean) =>
    untilDamage(async () => {
      const documents = await contents.documents(collection, { subject, after, before, descending });
      if (descending) before = documents.at(-1) ?? before;
      else after = documents.at(-1) ?? after;
      return documents;
    });
  const damage = yield* readRest(false);
  if (damage === undefined) return;
  yield* readRest(true);
  const from = after === undefined ? 'from the first one' : `after ${keyText(after)}`;
  const to = before === undefined ? 'up to the last one' : `before ${keyText(before)}`;
  gaps.push(`${collection.name} ${from} ${to} cannot be read: ${messageOf(damage)}`);
}
