// Writes the log to standard output. A full disk or a stalled reader costs log lines, but never stops the service.
import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import { isatty } from 'node:tty';

/** The destination that pino needs. */
interface LogDestination {
  write(line: string): void;
  /** Pino calls it after a line of level fatal. */
  flushSync(): void;
}

/** How many characters are collected before they are written: about as many as a pipe accepts atomically. */
const maxCollected = 4_096;
/** How many bytes may wait for the reader. */
const maxWaiting = 4 * 1024 * 1024;
/** The pause before output that was not accepted is retried, in ms; further lines cause earlier retries. */
const retryTime = 100;
/** How long an exiting process waits for a reader that accepts nothing, in ms. */
const exitPatience = 1_000;
/** How often an exiting process retries, in ms. */
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

/** Output that waits until a descriptor accepts it. */
class Output {
  readonly #fd: number;
  readonly #waiting: Buffer[] = [];
  #bytes = 0;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** The number of bytes that wait. */
  get bytes(): number {
    return this.#bytes;
  }

  add(text: string): void {
    const chunk = Buffer.from(text);
    this.#waiting.push(chunk);
    this.#bytes += chunk.length;
  }

  /** Writes as much as is accepted. @returns The system error code if some output remains. */
  write(): string | undefined {
    const waiting = this.#waiting;
    try {
      for (let [chunk] = waiting; chunk !== undefined; [chunk] = waiting) {
        const taken = writeSync(this.#fd, chunk);
        this.#bytes -= taken;
        if (taken < chunk.length) waiting[0] = chunk.subarray(taken);
        else waiting.shift();
      }
      return undefined;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code ?? 'unknown';
    }
  }
}

/**
 * Opens a log. To save system calls, the lines of one iteration of the event loop are written together
 * when it ends or the process exits; a process that is killed loses those of its last iteration. While its reader accepts
 * nothing, lines wait up to a limit. Beyond it, lines are lost until all waiting lines are written.
 *
 * It does not use process.stdout, because a stream does not report how much was accepted, which an exiting process must
 * know.
 * @param reportLoss - Called after that with the number of lost lines. It may log.
 * @param fd - Where to write, as openOutput opened it; standard output by default.
 */
export function openLog(reportLoss: (lines: number) => void, fd = openOutput(1)): LogDestination {
  const output = new Output(fd);
  let collected = '';
  let lost = 0;
  let retry: NodeJS.Timeout | undefined;

  /** @returns The system error code if some output remains. */
  const flush = (): string | undefined => {
    if (collected !== '') output.add(collected);
    collected = '';
    const fault = output.write();
    if (fault !== undefined) {
      retry ??= setTimeout(() => {
        retry = undefined;
        flush();
      }, retryTime).unref();
      return fault;
    }
    if (lost > 0) {
      const lines = lost;
      lost = 0;
      reportLoss(lines);
    }
    return undefined;
  };

  process.on('exit', () => {
    flushOnExit(flush, output);
  });
  return {
    write(line) {
      if (lost > 0 || output.bytes + collected.length > maxWaiting) {
        lost++;
        return;
      }
      if (collected.length + line.length > maxCollected) flush();
      if (collected === '') setImmediate(flush);
      collected += line;
    },
    flushSync: flush,
  };
}

/** Writes what waits, and waits for a reader as long as it accepts something from time to time. */
function flushOnExit(flush: () => string | undefined, output: Output): void {
  const clock = new Int32Array(new SharedArrayBuffer(4));
  let left = Infinity;
  for (let waited = 0; flush() === 'EAGAIN' && waited < exitPatience; waited += exitInterval) {
    if (output.bytes < left) waited = 0;
    left = output.bytes;
    Atomics.wait(clock, 0, 0, exitInterval);
  }
  // Writes the report of lost lines.
  flush();
}

/**
 * Opens a human-readable log on standard output.
 * @returns Undefined when pino-pretty, a development dependency, is not installed.
 */
export async function openReadableLog(): Promise<{ write(line: string): void } | undefined> {
  const loaded = await import('pino-pretty').catch(() => undefined);
  return loaded?.default({ destination: 1, sync: true, ignore: 'pid,hostname', translateTime: 'HH:MM:ss' });
}
