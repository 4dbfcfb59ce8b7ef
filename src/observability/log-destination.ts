// Where the log goes: standard output, and all lines of one turn of the event loop in one write.
import { destination } from 'pino';

/** What pino needs of a destination. */
export interface LogDestination {
  write(line: string): void;
  /** Pino calls it behind a line of level fatal. */
  flushSync(): void;
}

/**
 * How much text is collected at most, in characters; a longer line goes out alone. A pipe takes as many bytes at once, without a
 * part of another process's line in between.
 */
const mostText = 4_096;

/**
 * Opens standard output for the log. A line is out when the turn of the event loop that wrote it ends, and at the latest when the
 * process exits: only one that is killed, or aborts, in the middle of a turn loses lines, those of that turn. A write for each
 * line would cost more than all else about it.
 */
export function openLog(): LogDestination {
  // Its types do not know of bytes. Being synchronous, it has written them when it returns, so that their memory can be used again.
  const output = destination({ dest: 1, sync: true, contentMode: 'buffer' }) as unknown as {
    write(bytes: Buffer): void;
  };
  // A character takes three bytes at most. As one text the lines would be copied once more, into memory made for each write.
  const bytes = Buffer.allocUnsafe(mostText * 3);
  let characters = 0;
  let end = 0;
  let due = false;
  const flushSync = () => {
    const written = end;
    characters = end = 0;
    if (written > 0) output.write(bytes.subarray(0, written));
  };
  const endTurn = () => {
    due = false;
    flushSync();
  };
  process.on('exit', flushSync);
  return {
    write(line) {
      if (characters + line.length > mostText) flushSync();
      if (line.length > mostText) {
        output.write(Buffer.from(line));
        return;
      }
      characters += line.length;
      end += bytes.write(line, end);
      if (!due) {
        due = true;
        setImmediate(endTurn);
      }
    },
    flushSync,
  };
}
