// The command that stores the lines of an export: what is stored already stays as it is.
import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import { messageOf, type Outcomes, type Storage, StorageError } from '../../storage/core/interface.js';
import { openStorage } from '../../storage/open.js';
import { type ExportedLine, keyText, LineError, parseLine } from './exported-lines.js';
import { createProgress } from './progress.js';
import { CommandError, printJson, type StoreCommands, type StoreOptions } from './store-commands.js';

/** How many lines, and how many characters of them, are stored together. */
const batchLines = 1_000;
const batchLength = 4 * 1024 * 1024;
/** The longest line, in bytes: far longer than any document, whose length a request limits. */
const lineBytes = 64 * 1024 * 1024;
/** How many lines are named that are wrong or differ; the others are only counted. */
const namedLines = 20;
/** The exit status for lines that cannot be imported: EX_DATAERR. */
const dataStatus = 65;

/** The numbers of what became of lines. */
type Counts = Record<Outcomes['absent'] | 'wrong', number>;

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
      const counts: Counts = { inserted: 0, same: 0, other: 0, wrong: 0 };
      try {
        const source = file === undefined ? process.stdin : createReadStream(file);
        await new Import(storage, commands.service.collections, counts).run(linesOf(source));
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

/** A line with its number, from 1 on; or why it cannot be read. */
type NumberedLine = readonly [number: number, text: string | LineError];

/**
 * Splits a stream of bytes at line feeds only: JSON may contain every other end of a line.
 * @throws CommandError when the stream cannot be read.
 */
async function* linesOf(source: AsyncIterable<Uint8Array>): AsyncGenerator<NumberedLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });
  let parts: Uint8Array[] = [];
  let bytes = 0;
  let number = 0;
  const add = (part: Uint8Array) => {
    bytes += part.length;
    if (bytes <= lineBytes) parts.push(part);
  };
  const take = (): NumberedLine => {
    const [whole, isTooLong] = [Buffer.concat(parts), bytes > lineBytes];
    [parts, bytes] = [[], 0];
    number++;
    if (isTooLong) return [number, new LineError(`it is longer than ${lineBytes} bytes`)];
    try {
      return [number, decoder.decode(whole)];
    } catch (error) {
      return [number, new LineError('it is not UTF-8', { cause: error })];
    }
  };
  try {
    for await (const chunk of source) {
      let start = 0;
      for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
        add(chunk.subarray(start, end));
        yield take();
        start = end + 1;
      }
      add(chunk.subarray(start));
    }
  } catch (error) {
    if (error instanceof StorageError) throw error;
    throw new CommandError(`the lines cannot be read: ${messageOf(error)}`, { cause: error });
  }
  if (bytes > 0) yield take();
}

/** The import of one file. */
class Import {
  readonly #storage: Storage;
  readonly #collections: Parameters<typeof parseLine>[0];
  readonly #counts: Counts;
  readonly #progress = createProgress();
  #batch: { readonly number: number; readonly line: ExportedLine }[] = [];
  #named = 0;

  constructor(storage: Storage, collections: Parameters<typeof parseLine>[0], counts: Counts) {
    this.#storage = storage;
    this.#collections = collections;
    this.#counts = counts;
  }

  /** @throws StorageError or CommandError; what was stored before stays. */
  async run(lines: AsyncIterable<NumberedLine>): Promise<void> {
    let length = 0;
    try {
      for await (const [number, text] of lines) {
        if (text === '') continue;
        this.#add(number, text);
        length += typeof text === 'string' ? text.length : 0;
        if (this.#batch.length < batchLines && length < batchLength) continue;
        await this.#store();
        length = 0;
      }
      await this.#store();
    } finally {
      this.#progress.end();
    }
  }

  #add(number: number, text: string | LineError): void {
    try {
      if (typeof text !== 'string') throw text;
      this.#batch.push({ number, line: parseLine(this.#collections, text) });
    } catch (error) {
      if (!(error instanceof LineError)) throw error;
      this.#counts.wrong++;
      this.#name(number, error.message);
    }
  }

  /** Stores what was read, and resolves when it is durable. */
  async #store(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    const tokens = batch.flatMap(({ line }) => ('token' in line ? line.token : []));
    const copied = tokens.length === 0 ? [] : await this.#storage.tokens.copy(tokens);
    const outcomes = await Promise.all(
      batch.map(async ({ line }) => {
        if ('token' in line) return copied.shift() ?? 'other';
        const { subject, id, text } = line.document;
        return this.#storage.collection(line.collection).write(subject, id, { when: 'absent', text });
      }),
    );
    for (const [i, outcome] of outcomes.entries()) {
      const { number, line } = batch[i]!;
      this.#counts[outcome as Outcomes['absent']]++;
      if (outcome === 'other') this.#name(number, `${keyOf(line)} is stored, and differs`);
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

function keyOf(line: ExportedLine): string {
  return 'token' in line ? `the token ${line.token.id}` : `${line.collection.name} ${keyText(line.document)}`;
}
