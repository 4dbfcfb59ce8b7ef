// Says on standard error how far a command is, if a person sees it.

/** The time between two updates, in ms. */
const interval = 1_000;

/** Counts what is done, and shows the number in a terminal. Call `end` before anything else is printed. */
export function createProgress(output = process.stderr) {
  let done = 0;
  let shown = performance.now();
  const clear = () => output.isTTY && output.write('\r\u001b[K');
  return {
    add(count: number): void {
      done += count;
      if (!output.isTTY || performance.now() - shown < interval) return;
      shown = performance.now();
      clear();
      output.write(`${done.toLocaleString('en')} lines`);
    },
    end: clear,
  };
}
