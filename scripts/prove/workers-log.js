// The pipe to which the server of prove:workers logs, with a reader that can stall.
import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, rmSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';

/** A pipe; what `spawn` makes would be a socket. */
export class LogPipe {
  /** The server's end; to be closed when the server has inherited it. */
  writer;
  #reader;
  /** Another descriptor of that end, which never blocks. */
  #filler;
  /** @type {NodeJS.Timeout | undefined} */
  #filling;

  /** @param {string} path - Where to make it; nothing is left there. @param {(line: string) => void} receive */
  constructor(path, receive) {
    execFileSync('mkfifo', [path]);
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    this.writer = openSync(path, constants.O_WRONLY);
    this.#filler = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
    rmSync(path);
    this.#reader = new Socket({ fd, readable: true, writable: false });
    this.#reader.on('error', () => undefined);
    // Not by readline, which would resume a paused stream.
    let rest = '';
    this.#reader.setEncoding('utf8').on('data', (text) => {
      const lines = `${rest}${text}`.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line !== '') receive(line);
    });
  }

  /** From now on nothing reads the pipe, and it is full. */
  stall() {
    this.#reader.pause();
    // Repeatedly, since the paused stream still reads what fits into its buffer.
    this.#filling = setInterval(() => {
      this.#fill();
    }, 10);
  }

  #fill() {
    try {
      for (;;) writeSync(this.#filler, '\n'.repeat(4_096));
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EAGAIN') throw error;
    }
  }

  /** Reads again. */
  resume() {
    clearInterval(this.#filling);
    this.#reader.resume();
  }

  /** Closes it, once the server has ended. */
  close() {
    clearInterval(this.#filling);
    this.#reader.destroy();
    closeSync(this.#filler);
  }
}
