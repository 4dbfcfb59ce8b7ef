// Waiting in tests: for a condition, bounded by a deadline that no slow machine reaches.
import { setTimeout as pause } from 'node:timers/promises';

/** How long a test waits for anything, in ms: far longer than a slow machine takes, shorter than the runner's limit. */
const patience = 120_000;

/** How often a test looks at what gives no event, in ms: seldom enough to take no time from what it waits for. */
const pollInterval = 10;

/**
 * Repeats a step until its result is as expected, by default until it is truthy.
 * @returns That result.
 * @throws Error when it is not so after two minutes.
 */
export async function until<T>(step: () => Promise<T>, holds: (result: T) => boolean = Boolean): Promise<T> {
  const deadline = performance.now() + patience;
  for (;;) {
    const result = await step();
    if (holds(result)) return result;
    if (performance.now() > deadline)
      throw new Error(`not so after two minutes: ${String(step)} ${String(holds)}`);
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
  await until(async () => (await holds()) || (await step(), false));
}
