// Waiting in tests: for a condition, bounded by a deadline that no slow machine reaches.
import { setTimeout as pause } from 'node:timers/promises';
import { inspect } from 'node:util';

/** How long a test waits for anything, in ms: far longer than a slow machine takes, shorter than the runner's limit. */
const patience = 120_000;

/** How often a test looks at what gives no event, in ms: seldom enough to take no time from what it waits for. */
const pollInterval = 10;

/**
 * Repeats a step until its result is as expected, by default until it is truthy.
 * @returns That result.
 * @throws Error with the last result when it is not so after two minutes, even if a step is still under way.
 */
export async function until<T>(step: () => Promise<T>, holds: (result: T) => boolean = Boolean): Promise<T> {
  const over = new AbortController();
  let last: T | undefined;
  const deadline = pause(patience, undefined, { signal: over.signal }).then(() => {
    const expected = holds === Boolean ? String(step) : String(holds);
    throw new Error(`not so after two minutes: ${expected}; last: ${inspect(last)}`);
  });
  // It is aborted when the wait has ended.
  deadline.catch(() => undefined);
  try {
    for (;;) {
      last = await Promise.race([step(), deadline]);
      if (holds(last)) return last;
    }
  } finally {
    over.abort();
  }
}

/**
 * Repeats a step until something holds that may hold already; without a step, just looks again.
 * @throws Error when it does not hold after two minutes.
 */
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
