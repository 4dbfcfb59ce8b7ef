// Writes the log to standard output. A full disk or a stalled reader costs log lines, but never stops the service.
import { constants, fstatSync, openSync } from 'node:fs';
import { isatty } from 'node:tty';
import sonic from 'sonic-boom';

/** The destination that pino needs. */
interface LogDestination {
  write(line: string): void;
  /** Pino calls it after a line of level fatal. */
  flushSync(): void;
}

/** The number of characters that are collected before they are written: about as many as a pipe accepts atomically. */
const maxCollected = 4_096;
/** Maximum number of bytes that wait for the reader. */
const maxWaiting = 4 * 1024 * 1024;
/** The pause before output that was not accepted is retried, in ms; further lines cause earlier retries. */
const retryTime = 100;
/** Maximum time for which an exiting process waits for a reader that accepts nothing, in ms. */
const exitPatience = 1_000;
/** The interval at which an exiting process retries, in ms. */
const exitInterval = 10;

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
 * Opens a log. To save system calls, the lines of one iteration of the event loop are written together
 * when it ends or the process exits; a process that is killed loses those of its last iteration. While its reader accepts
 * nothing, lines wait up to a limit. Beyond it, lines are lost, and counted.
 * @param reportLoss - Called with the number of lost lines after the others are written. It may log.
 * @param fd - Where to write, as openOutput opened it; standard output by default.
 */
export function openLog(reportLoss: (lines: number) => void, fd = openOutput(1)): LogDestination {
  const output = new sonic.SonicBoom({
    fd,
    sync: true,
    maxWrite: maxCollected,
    maxLength: maxWaiting,
    // SonicBoom's own way of waiting would block the thread.
    retryEAGAIN: () => false,
  });
  let collected = '';
  let lost = 0;
  let fault: string | undefined;
  let progress = 0;
  let retry: NodeJS.Timeout | undefined;

  output.on('write', () => progress++);
  output.on('drop', (lines: string) => (lost += lines.split('\n').length - 1));
  output.on('error', (error: NodeJS.ErrnoException) => {
    fault = error.code ?? 'unknown';
    retry ??= setTimeout(() => {
      retry = undefined;
      flush();
    }, retryTime).unref();
  });
  const waits = () => fault !== undefined;
  const flush = () => {
    if (waits()) {
      fault = undefined;
      // An empty write makes SonicBoom try again. When its buffer is full, it drops other text without trying.
      output.write('');
    }
    const lines = collected;
    collected = '';
    if (lines !== '') output.write(lines);
    if (waits() || lost === 0) return;
    const count = lost;
    lost = 0;
    reportLoss(count);
  };

  process.on('exit', () => {
    // The process waits for a reader that accepts something from time to time.
    const clock = new Int32Array(new SharedArrayBuffer(4));
    flush();
    for (let waited = 0; fault === 'EAGAIN' && waited < exitPatience; waited += exitInterval) {
      const before = progress;
      Atomics.wait(clock, 0, 0, exitInterval);
      flush();
      if (progress > before) waited = 0;
    }
    // Writes the report of lost lines.
    flush();
  });
  return {
    write(line) {
      if (collected.length + line.length > maxCollected) flush();
      if (collected === '') setImmediate(flush);
      collected += line;
    },
    flushSync: flush,
  };
}

/**
 * Opens a human-readable log on standard output.
 * @returns Undefined when pino-pretty, a development dependency, is not installed.
 */
export async function openReadableLog(): Promise<{ write(line: string): void } | undefined> {
  const loaded = await import('pino-pretty').catch(() => undefined);
  return loaded?.default({ destination: 1, sync: true, ignore: 'pid,hostname', translateTime: 'HH:MM:ss' });
}
