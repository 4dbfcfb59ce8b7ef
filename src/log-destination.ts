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
 * part of another process's line in between, and longer strings cost more.
 */
const mostText = 4_096;

/**
 * Opens standard output for the log. A line is out when the turn of the event loop that wrote it ends, and at the latest when the
 * process exits: only one that is killed, or aborts, in the middle of a turn loses lines, those of that turn. A write for each
 * line would cost more than all else about it.
 */
export function openLog(): LogDestination {
  // As text it would be measured first; as bytes, of which its types do not know, it is not.
  const output = destination({ dest: 1, sync: true, contentMode: 'buffer' }) as unknown as {
    write(bytes: Buffer): void;
  };
  let lines = '';
  let due = false;
  const flushSync = () => {
    const text = lines;
    lines = '';
    if (text !== '') output.write(Buffer.from(text));
  };
  const endTurn = () => {
    due = false;
    flushSync();
  };
  process.on('exit', flushSync);
  return {
    write(line) {
      if (lines.length + line.length > mostText) flushSync();
      lines += line;
      if (!due) {
        due = true;
        setImmediate(endTurn);
      }
    },
    flushSync,
  };
}
