// The one way in which a test is skipped: loudly, for want of a thing that it names.
import { spawnSync } from 'node:child_process';

/** What is lacking if a program is not installed. */
export const lacks = (program: string) =>
  spawnSync(program, ['--version']).error ? `there is no ${program}` : undefined;

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
/** Whether this Node.js lets a server choose which requests upgrade. */
export const canUpgrade = major > 24 || (major === 24 && minor >= 9) || (major === 22 && minor >= 23);
export const noUpgrade = canUpgrade ? undefined : 'this Node.js cannot choose which requests upgrade';

/**
 * Options for one test that needs something this machine may lack. Each test needs its own: --grep of tap writes into
 * those of the tests that it leaves out.
 * @param lack - What is lacking, in words; undefined when nothing is.
 * @param options - Whether CI may lack it too, since no package brings it, or the Node.js is a later one.
 * @throws Error in CI, where everything else must be there.
 */
export function skipFor(
  lack: string | undefined,
  { alsoInCi = false }: { alsoInCi?: boolean } = {},
): { skip: string | false } {
  if (lack === undefined) return { skip: false };
  if (process.env['CI'] === 'true' && !alsoInCi) throw new Error(`in CI nothing is skipped, but ${lack}`);
  return { skip: lack };
}
