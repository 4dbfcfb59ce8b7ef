// Waits until a condition holds, for as long as a slow machine may take.

/** The time after which a condition will never hold, in ms. */
const patience = 60_000;

/**
 * Repeats a step until a condition holds.
 * @param step - Something that takes its time, such as a request; by default, a turn of the event loop.
 * @throws Error when it does not hold within a minute.
 */
export async function eventually(
  holds: () => boolean | Promise<boolean>,
  step: () => Promise<unknown> = () => new Promise(setImmediate),
): Promise<void> {
  const deadline = performance.now() + patience;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`it does not hold: ${String(holds)}`);
    await step();
  }
}
