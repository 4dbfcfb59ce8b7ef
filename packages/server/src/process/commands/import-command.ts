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
import { type ExportedLine, keyText, LineError, lineReader } from './exported-lines.js';
import { CommandError } from '../start-errors.js';
import type { StoreCommands, StoreOptions } from './store-commands.js';

/** The maximum number of lines, and of their characters, that are stored together. */
const batchLines = 1_000;
const batchLength = 4 * 1024 * 1024;
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
      const { service } = commands;
      const role = { createsNoneSince: 'import adds to one' };
      const storage = await openStorage(service, commands.urlOf(options), {}, {}, role);
      const run = new Import(storage, service.collections);
      const { counts } = run;
      let isWhole: boolean;
      try {
        isWhole = await run.store(linesOf(file === undefined ? process.stdin : createReadStream(file)));
      } finally {
        await storage.close();
        const { inserted, same, other, wrong } = counts;
        console.error(
          `Stored ${inserted}; ${same} were stored already, ${other} differ, ${wrong} are wrong.`,
        );
      }
      if (counts.wrong > 0)
        throw new CommandError('some lines are wrong; all others were read', { status: dataStatus });
      if (!isWhole)
        throw new CommandError('the last line of an export is missing; what was there was read', {
          status: dataStatus,
        });
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
  readonly line: Exclude<ExportedLine, { lines: number }>;
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
  readonly #read: (line: string) => ExportedLine;
  #batch: NumberedLine[] = [];
  /** The number of lines since the last one of an export. Several exports may follow one another. */
  #sinceEnd = 0;
  #isWhole = false;

  constructor(storage: Storage, collections: readonly CollectionDefinition[]) {
    this.#storage = storage;
    this.#read = lineReader(collections);
  }

  /**
   * Stores lines, and names those that are wrong or differ. Resolves with whether the export is whole.
   * @throws StorageError or CommandError; what was stored before stays.
   */
  async store(lines: AsyncIterable<string>): Promise<boolean> {
    let length = 0;
    let number = 0;
    for await (const text of lines) {
      number++;
      if (text === '') continue;
      this.#add(number, text);
      length += text.length;
      if (this.#batch.length < batchLines && length < batchLength) continue;
      await this.#storeBatch();
      length = 0;
    }
    await this.#storeBatch();
    return this.#isWhole;
  }

  /** Adds a line to the batch. */
  #add(number: number, text: string): void {
    this.#sinceEnd++;
    this.#isWhole = false;
    try {
      const line = this.#read(text);
      if (!('lines' in line)) {
        this.#batch.push({ number, line });
        return;
      }
      const count = this.#sinceEnd - 1;
      this.#sinceEnd = 0;
      this.#isWhole = true;
      // Somebody may have deleted lines on purpose.
      if (line.lines !== count)
        tell(number, `the export had ${line.lines} lines, and ${count} of them are here`);
    } catch (error) {
      if (!(error instanceof LineError)) throw error;
      this.counts.wrong++;
      tell(number, error.message);
    }
  }

  /** Stores what was read, and resolves when it is durable. */
  async #storeBatch(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    const written = batch.map(({ line }) => {
      if ('token' in line) return this.#storage.tokens.add(line.token);
      const { subject, id, text } = line.document;
      return this.#storage.collection(line.collection).write(subject, id, { when: 'absent', text });
    });
    const outcomes = (await Promise.all(written)) as Outcomes['absent'][];
    for (const [i, { number, line }] of batch.entries()) {
      const outcome = outcomes[i] ?? 'other';
      this.counts[outcome]++;
      if (outcome === 'other') tell(number, `${nameOf(line)} is stored, and differs`);
    }
  }
}

function tell(number: number, reason: string): void {
  console.error(`Line ${number}: ${reason}`);
}

function nameOf(line: NumberedLine['line']): string {
  return 'token' in line ? `the token ${line.token.id}` : `${line.collection.name} ${keyText(line.document)}`;
}
