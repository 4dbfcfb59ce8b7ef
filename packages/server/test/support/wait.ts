// Waiting in tests: for a condition, for as long as it takes, since the runner ends a file that prints nothing for long.
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { inspect } from 'node:util';

/** How often a test looks at what gives no event, in ms: seldom enough to take no time from what it waits for. */
const pollInterval = 10;

/** After how long it looks only once a second, in ms, and says what it waits for. */
const eagerness = 60_000;

/** Repeats a step until its result is as expected, by default until it is truthy, and returns that result. */
export async function until<T>(step: () => Promise<T>, holds: (result: T) => boolean = Boolean): Promise<T> {
  const begin = performance.now();
  let isEager = true;
  for (;;) {
    const last = await step();
    if (holds(last)) return last;
    if (performance.now() - begin < eagerness) continue;
    if (isEager) {
      const expected = holds === Boolean ? String(step) : String(holds);
      console.error(`A test waits for more than a minute until ${expected}; last: ${inspect(last)}`);
    }
    isEager = false;
    await pause(1_000);
  }
}

/** Repeats a step until something holds that may hold already; without a step, just looks again. */
export async function repeatUntil(
  holds: () => boolean | Promise<boolean>,
  step: () => Promise<unknown> = () => pause(pollInterval),
): Promise<void> {
  let result: boolean;
  await until(
    async () => (result = await holds()) || (await step(), false),
    Object.assign(() => result, { toString: () => String(holds) }),
  );
}

/** A promise, and the function that resolves it, as of Promise.withResolvers, which Node.js 20 lacks. */
export function withResolvers<T = void>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((settle) => (resolve = settle));
  return { promise, resolve };
}
