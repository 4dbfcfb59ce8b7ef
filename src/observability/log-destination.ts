// Where the log goes: standard output, and all lines of one turn of the event loop in one write.
import { destination } from 'pino';

/** What pino needs of a destination. */
export interface LogDestination {
  write(line: string): void;
  /** Pino calls it behind a line of level fatal. */
  flushSync(): void;
}

/** How many characters are collected before they are written: about what a pipe takes as a whole. */
const mostText = 4_096;

/**
 * Opens standard output for the log. A line is out when the turn of the event loop that wrote it ends, at the latest
 * when the process exits; a process that is killed in the middle of a turn loses that turn's lines. A system call for
 * each line would cost more than making it.
 */
export function openLog(): LogDestination {
  const output = destination({ dest: 1, sync: true });
  let collected = '';
  const flushSync = () => {
    if (collected === '') return;
    const text = collected;
    collected = '';
    output.write(text);
  };
  process.on('exit', flushSync);
  return {
    write(line) {
      if (collected.length + line.length > mostText) flushSync();
      if (collected === '') setImmediate(flushSync);
      collected += line;
    },
    flushSync,
  };
}
