// The command that stores the lines of an export: what is stored already stays as it is.
import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import { messageOf, type Storage } from '../../storage/core/interface.js';
import { openStorage } from '../../storage/open.js';
import { type ExportedItem, LineError, lineReader } from './exported-lines.js';
import { CommandError } from '../start-errors.js';
import type { StoreCommands } from './store-commands.js';

/** The exit status for lines that cannot be imported: EX_DATAERR. */
const status = 65;
/** The number of bytes that are read, and stored together. */
const highWaterMark = 512 * 1024;

/** Adds the command `import`. */
export function addImportCommand(program: Command, { service, url }: StoreCommands): void {
  program
    .command('import')
    .description(
      'store the documents and tokens of an export, except those that are stored already; on SQLite while no server runs',
    )
    .argument('[file]', 'path of the export (default: standard input)')
    .action(async (file: string | undefined) => {
      const role = { createsNoneSince: 'import adds to one' };
      const storage = await openStorage(service, url(), {}, {}, role);
      const source = file === undefined ? process.stdin : createReadStream(file, { highWaterMark });
      const run = new Import(storage, lineReader(service.collections));
      try {
        for await (const lines of linesOf(source)) await Promise.all(lines.map((line) => run.store(line)));
      } finally {
        await storage.close();
        const { inserted, same, other, wrong } = run.counts;
        console.error(
          `Stored ${inserted}; ${same} were stored already, ${other} differ, ${wrong} are wrong.`,
        );
      }
      if (run.counts.wrong > 0)
        throw new CommandError('some lines are wrong; all others were read', { status });
      if (!run.isWhole)
        throw new CommandError('the last line of an export is missing; what was there was read', { status });
      if (run.counts.other > 0) throw new CommandError('what differs was left as it is stored');
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
  readonly #read: (line: string) => ExportedItem | undefined;
  #number = 0;

  constructor(storage: Storage, read: (line: string) => ExportedItem | undefined) {
    this.#storage = storage;
    this.#read = read;
  }

  /**
   * Stores the next line, and resolves when it is durable. Says if it is wrong, or differs from what is stored.
   * @throws StorageError; what was stored before stays.
   */
  async store(line: string): Promise<void> {
    const number = ++this.#number;
    if (line === '') return;
    const tell = (reason: string) => {
      console.error(`Line ${number}: ${reason}`);
    };
    try {
      const item = this.#read(line);
      this.isWhole = item === undefined;
      if (item === undefined) return;
      const outcome = await item.add(this.#storage);
      this.counts[outcome]++;
      if (outcome === 'other') tell(`${item.name} is stored, and differs`);
    } catch (error) {
      if (!(error instanceof LineError)) throw error;
      this.isWhole = false;
      this.counts.wrong++;
      tell(error.message);
    }
  }
}
