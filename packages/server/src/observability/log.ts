// The log on standard output. A full disk or a stalled reader costs log lines, but never stops the service.
import { hostname } from 'node:os';
import { isMainThread } from 'node:worker_threads';
import { destination, pino, type Logger } from 'pino';
import { oncePerIteration } from '../base/once-per-iteration.js';

/** The length of text up to which lines are written together: a pipe accepts it whole, so that threads do not mix lines. */
const maxCollected = 4_096;
/** Maximum number of bytes that wait for the reader. */
const maxWaiting = 4 * 1024 * 1024;
/** The pause before output that was not accepted is tried again, in ms. */
const retryTime = 100;
/** The number of times that an exiting process tries again, with a pause of 100 ms before each. */
const exitTries = 50;

/**
 * Opens the log of this process or thread.
 * @param thread - The number of this thread, if several serve.
 * @param isReadable - Whether lines are for people, if pino-pretty, a development dependency, is installed.
 */
export async function openLog(
  level: string,
  thread: number | undefined,
  isReadable: boolean,
): Promise<Logger> {
  const base = { pid: process.pid, hostname: hostname(), thread };
  const options = { level, ...(thread !== undefined && { base }) };
  const pretty = isReadable ? await import('pino-pretty').catch(() => undefined) : undefined;
  if (pretty !== undefined) {
    const shown = { ignore: 'pid,hostname', translateTime: 'HH:MM:ss', errorLikeObjectKeys: ['err'] };
    return pino(options, pretty.default({ sync: true, singleLine: true, ...shown }));
  }
  const log: Logger = pino(
    options,
    openDestination((lines) => {
      log.warn({ lines }, 'lines of the log were lost: standard output did not accept them');
    }),
  );
  return log;
}

/**
 * Opens a destination of pino. To save system calls, the lines of one iteration of the event loop are written together; a
 * process that is killed loses those of its last iteration. While the reader accepts nothing, lines wait up to a limit.
 * Beyond it, lines are lost, and counted.
 * @param reportLoss - Called with the number of lost lines when there is room again. It logs.
 */
function openDestination(reportLoss: (lines: number) => void) {
  let tries = 0;
  // With `sync: false`, lines that are written at the exit could come before earlier ones, or be lost. Pino's own ways of
  // waiting for a reader, and of flushing to a full disk, block the thread.
  const output = destination({
    // Reading the property of the main thread makes a pipe or socket non-blocking, for all threads.
    dest: isMainThread ? process.stdout.fd : 1,
    sync: true,
    minLength: 1,
    maxLength: maxWaiting,
    periodicFlush: retryTime,
    retryEAGAIN: () => tries-- > 0,
  });
  let lost = 0;
  output.on('drop', (lines: string) => (lost += lines.split('\n').length - 1));
  const report = () => {
    const lines = lost;
    lost = 0;
    if (lines > 0) reportLoss(lines);
  };
  output.on('drain', report);
  // It is tried again.
  output.on('error', () => undefined);
  let collected = '';
  const flush = () => {
    output.write(collected);
    collected = '';
  };
  process.on('exit', () => {
    tries = exitTries;
    output.flush();
    flush();
    report();
    flush();
  });
  const flushSoon = oncePerIteration(flush);
  return {
    write(line: string): void {
      if (collected.length + line.length > maxCollected) flush();
      collected += line;
      flushSoon();
    },
    /** Pino calls it after a line of level fatal. */
    flushSync: flush,
  };
}
