// The one way in which a test is skipped: loudly, for want of a thing that it names, and never in CI.

/**
 * Options for a test that needs something this machine may lack.
 * @param lack - What is lacking, in words; undefined when nothing is.
 * @throws Error in CI, where everything must be there.
 */
export function skipFor(lack: string | undefined): { skip: string | false } {
  if (lack === undefined) return { skip: false };
  if (process.env['CI'] === 'true') throw new Error(`in CI nothing is skipped, but ${lack}`);
  return { skip: lack };
}
