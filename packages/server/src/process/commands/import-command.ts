// The command that stores the lines of an export: what is stored already stays as it is.
import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import { messageOf, type Outcomes, type Storage } from '../../storage/core/interface.js';
import { openStorage } from '../../storage/open.js';
import { type ExportedLine, keyText, LineError, lineReader } from './exported-lines.js';
import { CommandError } from '../start-errors.js';
import type { StoreCommands } from './store-commands.js';

/** The exit status for lines that cannot be imported: EX_DATAERR. */
const status = 65;
/** The number of bytes that are read, and stored together. */
const highWaterMark = 512 * 1024;

type Item = Exclude<ExportedLine, { lines: number }>;

/** Adds the command `import`. */
export function addImportCommand(program: Command, commands: StoreCommands): void {
  program
    .command('import')
    .description(
      'store the documents and tokens of an export, except those that are stored already; on SQLite while no server runs',
    )
    .argument('[file]', 'path of the export (default: standard input)')
    .action(async (file: string | undefined) => {
      const { service } = commands;
      const role = { createsNoneSince: 'import adds to one' };
      const storage = await openStorage(service, commands.url(), {}, {}, role);
      const run = new Import(storage, lineReader(service.collections));
      const { counts } = run;
      try {
        const source = file === undefined ? process.stdin : createReadStream(file, { highWaterMark });
        for await (const lines of linesOf(source)) await run.store(lines);
      } finally {
        await storage.close();
        const { inserted, same, other, wrong } = counts;
        console.error(
          `Stored ${inserted}; ${same} were stored already, ${other} differ, ${wrong} are wrong.`,
        );
      }
      if (counts.wrong > 0) throw new CommandError('some lines are wrong; all others were read', { status });
      if (!run.isWhole)
        throw new CommandError('the last line of an export is missing; what was there was read', { status });
      if (counts.other > 0) throw new CommandError('what differs was left as it is stored');
    });
}

/**
 * Splits a stream of bytes at line feeds only: JSON may contain every other end of a line. Returns those of a part together.
 * @throws CommandError when the stream cannot be read, or is not UTF-8.
 */
async function* linesOf(source: AsyncIterable<Uint8Array>): AsyncGenerator<readonly string[]> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let rest = '';
  try {
    for await (const chunk of source) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      yield lines;
    }
    yield [rest + decoder.decode()];
  } catch (error) {
    throw new CommandError(`the lines cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** The import of a file. */
class Import {
  /** The numbers of what became of lines. */
  readonly counts = { inserted: 0, same: 0, other: 0, wrong: 0 };
  /** Whether the last line was that of an export. Several exports may follow one another. */
  isWhole = false;
  readonly #storage: Storage;
  readonly #read: (line: string) => ExportedLine;
  #number = 0;

  constructor(storage: Storage, read: (line: string) => ExportedLine) {
    this.#storage = storage;
    this.#read = read;
  }

  /**
   * Stores lines, and resolves when they are durable. Names those that are wrong or differ.
   * @throws StorageError; what was stored before stays.
   */
  async store(lines: readonly string[]): Promise<void> {
    await Promise.all(
      lines.map(async (text) => {
        const number = ++this.#number;
        const item = text === '' ? undefined : this.#itemOf(number, text);
        if (item === undefined) return;
        const outcome = await this.#add(item);
        this.counts[outcome]++;
        if (outcome === 'other') tell(number, `${nameOf(item)} is stored, and differs`);
      }),
    );
  }

  /** Reads a line; undefined if it is wrong, or the last one of an export. */
  #itemOf(number: number, text: string): Item | undefined {
    this.isWhole = false;
    try {
      const line = this.#read(text);
      if (!('lines' in line)) return line;
      this.isWhole = true;
    } catch (error) {
      if (!(error instanceof LineError)) throw error;
      this.counts.wrong++;
      tell(number, error.message);
    }
    return undefined;
  }

  #add(item: Item): Promise<Outcomes['absent']> {
    if ('token' in item) return this.#storage.tokens.add(item.token);
    const { subject, id, text } = item.document;
    const written = this.#storage.collection(item.collection).write(subject, id, { when: 'absent', text });
    return written as Promise<Outcomes['absent']>;
  }
}

function tell(number: number, reason: string): void {
  console.error(`Line ${number}: ${reason}`);
}

function nameOf(item: Item): string {
  return 'token' in item ? `the token ${item.token.id}` : `${item.collection.name} ${keyText(item.document)}`;
}
