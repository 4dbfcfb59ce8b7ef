// The command that writes the contents of a store as lines of JSON: also beside its server, of a backup, or of a damaged store.
import { once } from 'node:events';
import type { Command } from 'commander';
import {
  type CollectionDefinition,
  messageOf,
  StorageError,
  type StoreContents,
  type StoredDocument,
} from '../../storage/core/interface.js';
import { openContents } from '../../storage/open.js';
import { documentLine, keyText, tokenLine } from './exported-lines.js';
import { CommandError } from '../start-errors.js';
import type { StoreCommands } from './store-commands.js';

interface ExportOptions {
  subject?: string;
  tokens?: boolean;
}

/** Adds the command `export`. */
export function addExportCommand(program: Command, commands: StoreCommands): void {
  const { service } = commands;
  program
    .command('export')
    .description(
      'write documents as lines of JSON, while the server runs; also from a backup or a damaged store',
    )
    .option('--subject <subject>', 'only what belongs to this subject')
    .option('--tokens', 'also access tokens, by the hashes of their secrets')
    .action(async ({ subject, tokens: hasTokens = false }: ExportOptions) => {
      const contents = await openContents(service, commands.url());
      const collections = service.collections.filter(({ isTransient }) => isTransient !== true);
      const gaps: string[] = [];
      let count = 0;
      const write = async (pages: AsyncIterable<readonly string[]>) => {
        for await (const lines of pages) {
          count += lines.length;
          if (!process.stdout.write(lines.map((line) => `${line}\n`).join('')))
            await once(process.stdout, 'drain');
        }
      };
      try {
        // They come first, so that they are valid first.
        if (hasTokens) await write(tokensOf(contents, subject));
        for (const collection of collections) await write(documentsOf(contents, collection, subject, gaps));
      } finally {
        await contents.close();
      }
      // Without this line, an export that was cut would look like a whole one.
      console.log(JSON.stringify({ lines: count }));
      console.error(`Exported ${count} documents and tokens.`);
      if (gaps.length > 0)
        throw new CommandError(['the store is damaged; what could be read was exported', ...gaps].join('\n'));
    });
}

async function* tokensOf(contents: StoreContents, subject: string | undefined) {
  let last: string | undefined = '';
  while (last !== undefined) {
    const tokens = await contents.tokens(last, subject);
    if (tokens.length > 0) yield tokens.map(tokenLine);
    last = tokens.at(-1)?.id;
  }
}

/**
 * The lines of the documents of a collection up to damage, and then of those behind it, from the end.
 * @param gaps - Receives a sentence about what cannot be read.
 */
async function* documentsOf(
  contents: StoreContents,
  collection: CollectionDefinition,
  subject: string | undefined,
  gaps: string[],
) {
  let after: StoredDocument | undefined;
  let before: StoredDocument | undefined;
  async function* linesOf(descending: boolean) {
    for (;;) {
      const documents = await contents.documents(collection, { subject, after, before, descending });
      const last = documents.at(-1);
      if (last === undefined) return;
      if (descending) before = last;
      else after = last;
      yield documents.flatMap((document) => {
        const line = documentLine(collection, document);
        if (line === undefined)
          gaps.push(`${collection.name} ${keyText(document)} is damaged: it is no JSON`);
        return line ?? [];
      });
    }
  }
  const damage = yield* untilDamage(linesOf(false));
  if (damage === undefined) return;
  yield* untilDamage(linesOf(true));
  const from = after === undefined ? 'from the first one' : `after ${keyText(after)}`;
  const to = before === undefined ? 'up to the last one' : `before ${keyText(before)}`;
  gaps.push(`${collection.name} ${from} ${to} cannot be read: ${messageOf(damage)}`);
}

/** Resolves with the error of damage, if that ends the pages. */
async function* untilDamage(
  pages: AsyncIterable<readonly string[]>,
): AsyncGenerator<readonly string[], unknown> {
  try {
    yield* pages;
    return undefined;
  } catch (error) {
    if (error instanceof StorageError && error.failure === 'damaged') return error;
    throw error;
  }
}
