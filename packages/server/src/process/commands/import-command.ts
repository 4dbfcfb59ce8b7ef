// The command that stores the lines of an export: what is stored already stays as it is.
import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import {
  type CollectionDefinition,
  messageOf,
  type Outcomes,
  type Storage,
} from '../../storage/core/interface.js';
import { openStorage } from '../../storage/open.js';
import { type ExportedLine, keyText, LineError, parseLine } from './exported-lines.js';
import { createProgress } from './progress.js';
import { CommandError, printJson, type StoreCommands, type StoreOptions } from './store-commands.js';

/** How many lines, and how many characters of them, are stored together. */
const batchLines = 1_000;
const batchLength = 4 * 1024 * 1024;
/** How many lines are named that are wrong or differ; the others are only counted. */
const namedLines = 20;
/** The exit status for lines that cannot be imported: EX_DATAERR. */
const dataStatus = 65;

/** Adds the command `import`. */
export function addImportCommand(program: Command, commands: StoreCommands): void {
  commands
    .add(program, 'import')
    .description(
      'store the documents and tokens of an export, except those that are stored already; on SQLite while no server runs',
    )
    .argument('[file]', 'path of the export (default: standard input)')
    .action(async (file: string | undefined, options: StoreOptions) => {
      const url = commands.urlOf(options);
      const storage = await openStorage(commands.service, url, {}, {}, { mayCreate: false });
      const run = new Import(storage, commands.service.collections);
      const { counts } = run;
      try {
        await run.store(linesOf(file === undefined ? process.stdin : createReadStream(file)));
      } finally {
        await storage.close();
        const { inserted, same, other, wrong } = counts;
        console.error(
          `Stored ${inserted}; ${same} were stored already, ${other} differ, ${wrong} are wrong.`,
        );
        if (options.json) printJson({ stored: inserted, same, differ: other, wrong });
      }
      if (counts.wrong > 0)
        throw new CommandError('some lines are wrong; all others were read', { status: dataStatus });
      if (counts.other > 0) throw new CommandError('what differs was left as it is stored');
    });
}

/**
 * Splits a stream of bytes at line feeds only: JSON may contain every other end of a line.
 * @throws CommandError when the stream cannot be read, or is not UTF-8.
 */
async function* linesOf(source: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let rest = '';
  try {
    for await (const chunk of source) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      yield* lines;
    }
    yield rest + decoder.decode();
  } catch (error) {
    throw new CommandError(`the lines cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** A line with its number, from 1 on. */
interface NumberedLine {
  readonly number: number;
  readonly line: ExportedLine;
}

/** The import of one file. */
class Import {
  /** The numbers of what became of lines. */
  readonly counts: Record<Outcomes['absent'] | 'wrong', number> = {
    inserted: 0,
    same: 0,
    other: 0,
    wrong: 0,
  };
  readonly #storage: Storage;
  readonly #collections: readonly CollectionDefinition[];
  readonly #progress = createProgress();
  #named = 0;

  constructor(storage: Storage, collections: readonly CollectionDefinition[]) {
    this.#storage = storage;
    this.#collections = collections;
  }

  /** Stores lines. @throws StorageError or CommandError; what was stored before stays. */
  async store(lines: AsyncIterable<string>): Promise<void> {
    let batch: NumberedLine[] = [];
    let length = 0;
    let number = 0;
    try {
      for await (const text of lines) {
        number++;
        if (text !== '') batch.push(...this.#parse(number, text));
        length += text.length;
        if (batch.length < batchLines && length < batchLength) continue;
        await this.#storeBatch(batch);
        [batch, length] = [[], 0];
      }
      await this.#storeBatch(batch);
    } finally {
      this.#progress.end();
    }
  }

  #parse(number: number, text: string): NumberedLine[] {
    try {
      return [{ number, line: parseLine(this.#collections, text) }];
    } catch (error) {
      if (!(error instanceof LineError)) throw error;
      this.counts.wrong++;
      this.#name(number, error.message);
      return [];
    }
  }

  /** Stores what was read, and resolves when it is durable. */
  async #storeBatch(batch: readonly NumberedLine[]): Promise<void> {
    const tokens = batch.flatMap(({ line }) => ('token' in line ? line.token : []));
    const copied = tokens.length === 0 ? [] : await this.#storage.tokens.copy(tokens);
    const written = batch.map(async ({ line }) => {
      if ('token' in line) return copied.shift();
      const { subject, id, text } = line.document;
      return this.#storage.collection(line.collection).write(subject, id, { when: 'absent', text });
    });
    const outcomes = (await Promise.all(written)) as Outcomes['absent'][];
    for (const [i, { number, line }] of batch.entries()) {
      const outcome = outcomes[i] ?? 'other';
      this.counts[outcome]++;
      if (outcome === 'other') this.#name(number, `${nameOf(line)} is stored, and differs`);
    }
    this.#progress.add(batch.length);
  }

  #name(number: number, reason: string): void {
    this.#named++;
    if (this.#named > namedLines + 1) return;
    this.#progress.end();
    console.error(this.#named > namedLines ? 'There are more such lines.' : `Line ${number}: ${reason}`);
  }
}

function nameOf(line: ExportedLine): string {
  return 'token' in line ? `the token ${line.token.id}` : `${line.collection.name} ${keyText(line.document)}`;
}
