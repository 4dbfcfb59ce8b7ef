// Where the log goes: standard output. What does not take it, as a full disk or a reader that stalls, costs lines of
// the log, and never the service.
import { writeSync } from 'node:fs';

/** What pino needs of a destination. */
export interface LogDestination {
  write(line: string): void;
  /** Pino calls it behind a line of level fatal. */
  flushSync(): void;
}

/** How many characters are collected before they are written: about what a pipe takes as a whole. */
const mostCollected = 4_096;
/** How much may wait for standard output to take it, in bytes: at full speed, the lines of about a second. */
const mostWaiting = 4 * 1024 * 1024;
/** How long until what was not taken is offered again, in ms, unless another line comes before. */
const retryTime = 100;
/** How long the end of the process waits for a reader that takes nothing, and how often it looks, in ms. */
const exitPatience = 1_000;
const exitInterval = 10;

/**
 * Opens standard output for the log. A line is offered when the turn of the event loop that wrote it ends, at the
 * latest when the process exits; a process that is killed in the middle of a turn loses that turn's lines. A system
 * call for each line would cost more than making it. While standard output takes nothing, lines wait up to a bound;
 * further ones are lost until all that waits is out.
 * @param reportLoss - Called then with the number of lines that were lost. It may log.
 */
export function openLog(reportLoss: (lines: number) => void): LogDestination {
  // Opened as Node's stream, a pipe or a socket no longer blocks. It is written to directly all the same: the stream
  // does not tell how much was taken, which the end of the process must know.
  const { fd } = process.stdout;
  let collected = '';
  const waiting: Buffer[] = [];
  let waitingBytes = 0;
  let lost = 0;
  let retry: NodeJS.Timeout | undefined;

  /** Writes what standard output takes. @returns Why it has not taken all, as the system's error code. */
  const flush = (): string | undefined => {
    if (collected !== '') {
      const chunk = Buffer.from(collected);
      collected = '';
      waiting.push(chunk);
      waitingBytes += chunk.length;
    }
    try {
      for (let [chunk] = waiting; chunk !== undefined; [chunk] = waiting) {
        const taken = writeSync(fd, chunk);
        waitingBytes -= taken;
        if (taken < chunk.length) waiting[0] = chunk.subarray(taken);
        else waiting.shift();
      }
    } catch (error) {
      retry ??= setTimeout(() => {
        retry = undefined;
        flush();
      }, retryTime).unref();
      return (error as NodeJS.ErrnoException).code;
    }
    if (lost > 0) {
      const lines = lost;
      lost = 0;
      reportLoss(lines);
    }
    return undefined;
  };

  process.on('exit', () => {
    const clock = new Int32Array(new SharedArrayBuffer(4));
    let left = Infinity;
    for (let waited = 0; flush() === 'EAGAIN' && waited < exitPatience; waited += exitInterval) {
      if (waitingBytes < left) waited = 0;
      left = waitingBytes;
      Atomics.wait(clock, 0, 0, exitInterval);
    }
    // The report of a loss.
    flush();
  });
  return {
    write(line) {
      if (lost > 0 || waitingBytes + collected.length > mostWaiting) {
        lost++;
        return;
      }
      if (collected.length + line.length > mostCollected) flush();
      if (collected === '') setImmediate(flush);
      collected += line;
    },
    flushSync: flush,
  };
}

/**
 * A log for a person at a terminal, by pino-pretty, which is there in development only.
 * @returns undefined where it is not installed.
 */
export async function openReadableLog(): Promise<{ write(line: string): void } | undefined> {
  const loaded = await import('pino-pretty').catch(() => undefined);
  return loaded?.default({ destination: 1, sync: true, ignore: 'pid,hostname', translateTime: 'HH:MM:ss' });
}
