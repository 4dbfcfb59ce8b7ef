// Runs a command that reads a contract within limits of time and memory, and reports which of them it exceeds.
import { existsSync, statSync } from 'node:fs';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { ConfigError } from '../process/config.js';

/** What a command may use for a contract of a size, and in proportion for a greater one. */
export interface CommandLimits {
  /** In bytes. */
  readonly size: number;
  /** CPU time, in seconds. */
  readonly seconds: number;
  /** Memory for objects, in megabytes. */
  readonly megabytes: number;
}

/** Of a contract of this size without anything unusual, a check takes half of that. */
export const commandLimits: CommandLimits = { size: 5_000_000, seconds: 10, megabytes: 800 };

/**
 * Runs the command that this process was started with again, in a thread, and takes over its exit status.
 * @param script - The module of the command.
 * @param file - The contract.
 * @param args - The arguments of the command.
 * @throws ConfigError if the command needs more than the limits.
 */
export async function runLimited(
  script: URL,
  file: string,
  limits = commandLimits,
  args: readonly string[] = process.argv.slice(2),
): Promise<void> {
  const scale = Math.max(1, (existsSync(file) ? statSync(file).size : 0) / limits.size);
  const seconds = scale * limits.seconds;
  const megabytes = scale * limits.megabytes;
  const start = process.cpuUsage();
  const worker = new Worker(script, {
    argv: [...args],
    resourceLimits: { maxOldGenerationSizeMb: megabytes },
  });
  const late = new AbortController();
  const timer = setInterval(() => {
    const { user, system } = process.cpuUsage(start);
    if (user + system < seconds * 1e6) return;
    late.abort();
    void worker.terminate();
  }, 50);
  try {
    const [code] = (await once(worker, 'exit')) as [number];
    if (!late.signal.aborted) process.exitCode = code;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ERR_WORKER_OUT_OF_MEMORY')
      throw new ConfigError(tooComplex(file, `${Math.round(megabytes)} MB of memory`));
    throw error;
  } finally {
    clearInterval(timer);
  }
  if (late.signal.aborted) throw new ConfigError(tooComplex(file, `${Math.round(seconds)} s of CPU time`));
}

function tooComplex(file: string, limit: string): string {
  return `${file} is too complex: it takes more than ${limit}; leave out parts of it to find which one does`;
}
