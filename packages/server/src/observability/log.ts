// The log on standard output. A full disk or a stalled reader costs log lines, but never stops the service.
import { constants, fstatSync, openSync } from 'node:fs';
import { hostname } from 'node:os';
import { isatty } from 'node:tty';
import { destination, pino, type Logger } from 'pino';
import { oncePerIteration } from '../base/once-per-iteration.js';

/** The number of characters that are collected before they are written: about as many as a pipe accepts atomically. */
const maxCollected = 4_096;
/** Maximum number of bytes that wait for the reader. */
const maxWaiting = 4 * 1024 * 1024;
/** The pause before output that was not accepted is tried again, in ms. */
const retryTime = 100;
/** How often an exiting process tries again, and the pause before that, in ms. */
const exitTries = 100;
const exitPause = 10;

/** Options of the log. */
export interface LogOptions {
  readonly level: string;
  /** The number of this thread among those that serve, from 1, or `main` for the main one of several. */
  readonly thread?: number | 'main' | undefined;
  /** Whether lines are for people, if pino-pretty, a development dependency, is installed. */
  readonly isReadable?: boolean | undefined;
  /** The descriptor to write to, as openOutput opened it; standard output by default. */
  readonly output?: number | undefined;
}

/** Opens the log of a process or thread. */
export async function openLog({ level, thread, isReadable, output }: LogOptions): Promise<Logger> {
  const base = { pid: process.pid, hostname: hostname(), thread };
  const options = { level, ...(thread !== undefined && { base }) };
  const pretty = isReadable ? await import('pino-pretty').catch(() => undefined) : undefined;
  if (pretty !== undefined)
    return pino(
      options,
      pretty.default({ destination: 1, sync: true, ignore: 'pid,hostname', translateTime: 'HH:MM:ss' }),
    );
  const log: Logger = pino(
    options,
    openDestination(output ?? openOutput(1), (lines) => {
      log.warn({ lines }, 'lines of the log were lost: standard output did not accept them');
    }),
  );
  return log;
}

/**
 * Opens standard output or standard error so that writes never block.
 *
 * Whether writes block is a property of the open file, which all processes share that inherited it: each of them may
 * change it, and a process that Node.js starts does so to its standard streams. A pipe or a terminal is therefore opened
 * again, for this process alone (Linux). That is impossible for a socket; it is made non-blocking, and stays so unless
 * another program changes it.
 * @returns The descriptor. As a descriptor above 2, child processes can inherit it and do not change it.
 */
export function openOutput(fd: 1 | 2): number {
  if (fstatSync(fd).isFIFO() || isatty(fd)) {
    try {
      return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    } catch {
      // There is no /proc, the pipe belongs to another user, or its reader is gone.
    }
  }
  // Reading these properties makes a pipe or socket non-blocking.
  return fd === 1 ? process.stdout.fd : process.stderr.fd;
}

/**
 * Opens a destination of pino. To save system calls, the lines of one iteration of the event loop are written together;
 * a process that is killed loses those of its last iteration. While the reader accepts nothing, lines wait up to a limit.
 * Beyond it, lines are lost, and counted.
 * @param reportLoss - Called with the number of lost lines after the others are written. It may log.
 */
function openDestination(fd: number, reportLoss: (lines: number) => void) {
  // With `sync: false`, lines that are written at the exit can come before earlier ones, or be lost. Pino's own way of
  // waiting for a reader blocks the thread.
  const output = destination({ dest: fd, sync: true, maxLength: maxWaiting, retryEAGAIN: () => false });
  let collected = '';
  let lost = 0;
  let isStalled = false;
  let retry: NodeJS.Timeout | undefined;
  const flush = () => {
    if (isStalled) {
      isStalled = false;
      // An empty write makes it try again. When its buffer is full, it drops other text without trying.
      output.write('');
    }
    const lines = collected;
    collected = '';
    if (lines !== '') output.write(lines);
    if (isStalled || lost === 0) return;
    const count = lost;
    lost = 0;
    reportLoss(count);
  };
  const flushSoon = oncePerIteration(flush);
  output.on('drop', (lines: string) => (lost += lines.split('\n').length - 1));
  output.on('error', () => {
    isStalled = true;
    retry ??= setTimeout(() => {
      retry = undefined;
      flush();
    }, retryTime).unref();
  });
  process.on('exit', () => {
    const clock = new Int32Array(new SharedArrayBuffer(4));
    flush();
    for (let tries = 0; isStalled && tries < exitTries; tries++) {
      Atomics.wait(clock, 0, 0, exitPause);
      flush();
    }
    // Writes the report of lost lines.
    flush();
  });
  return {
    write(line: string) {
      if (collected.length + line.length > maxCollected) flush();
      collected += line;
      flushSoon();
    },
    // Pino calls it after a line of level fatal.
    flushSync: flush,
  };
}
