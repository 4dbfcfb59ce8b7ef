// The log on standard output. A full disk or a stalled reader costs log lines, but never stops the service.
import { constants, fstatSync, openSync } from 'node:fs';
import { hostname } from 'node:os';
import { isatty } from 'node:tty';
import { isMainThread } from 'node:worker_threads';
import { destination, pino, type Logger } from 'pino';
import { oncePerIteration } from '../base/once-per-iteration.js';

/** The length of text up to which lines are written together: a pipe accepts it whole, so that threads do not mix lines. */
const maxCollected = 4_096;
/** Maximum number of bytes that wait for the reader. */
const maxWaiting = 4 * 1024 * 1024;
/** The pause before output that was not accepted is tried again, in ms. */
const retryTime = 100;
/** The number of times that an exiting process tries again, and the pause before each, in ms. */
const exitTries = 100;
const exitPause = 10;

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
    const shown = {
      ignore: 'pid,hostname',
      translateTime: 'HH:MM:ss',
      singleLine: true,
      errorLikeObjectKeys: ['err'],
    };
    return pino(options, pretty.default({ destination: 1, sync: true, ...shown }));
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
 * Opens standard output so that writes never block.
 *
 * Whether writes block is a property of the open file, which all processes share that inherited it: each of them may
 * change it, and a process that Node.js starts does so to its standard streams. A pipe or a terminal is therefore opened
 * again, for this thread alone (Linux). That is impossible for a socket; it is made non-blocking, and stays so unless
 * another program changes it.
 * @returns The descriptor. As a descriptor above 2, child processes can inherit it and do not change it.
 */
function openOutput(): number {
  if (fstatSync(1).isFIFO() || isatty(1)) {
    try {
      return openSync('/proc/self/fd/1', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    } catch {
      // There is no /proc, the pipe belongs to another user, or its reader is gone.
    }
  }
  // Reading this property makes a pipe or socket non-blocking; a thread has no stream of its own.
  return isMainThread ? process.stdout.fd : 1;
}

/**
 * Opens a destination of pino. To save system calls, the lines of one iteration of the event loop are written together; a
 * process that is killed loses those of its last iteration. While the reader accepts nothing, lines wait up to a limit.
 * Beyond it, lines are lost, and counted.
 * @param reportLoss - Called with the number of lost lines when there is room again. It logs.
 */
function openDestination(reportLoss: (lines: number) => void) {
  // With `sync: false`, lines that are written at the exit could come before earlier ones, or be lost. Pino's own ways of
  // waiting for a reader, and of flushing to a full disk, block the thread.
  const output = destination({
    dest: openOutput(),
    sync: true,
    maxLength: maxWaiting,
    retryEAGAIN: () => false,
  });
  let collected = '';
  let lost = 0;
  let isStalled = false;
  const tryAgain = () => {
    if (!isStalled) return;
    isStalled = false;
    // When its buffer is full, it drops other text than an empty one without trying.
    output.write('');
  };
  const flush = () => {
    tryAgain();
    if (!isStalled && lost > 0) {
      const count = lost;
      lost = 0;
      reportLoss(count);
    }
    if (collected !== '') output.write(collected);
    collected = '';
  };
  const retry = setTimeout(flush, retryTime).unref();
  output.on('drop', (lines: string) => (lost += lines.split('\n').length - 1));
  output.on('error', () => {
    isStalled = true;
    retry.refresh();
  });
  process.on('exit', () => {
    const clock = new Int32Array(new SharedArrayBuffer(4));
    flush();
    for (let tries = 0; isStalled && tries < exitTries; tries++) {
      Atomics.wait(clock, 0, 0, exitPause);
      flush();
    }
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
