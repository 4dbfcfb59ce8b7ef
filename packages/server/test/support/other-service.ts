// Another service than the Plant Store on the same server, as a process.
import { once } from 'node:events';
import type { Test } from 'tap';
import { startServer } from './processes.js';
import type { ServerOptions } from './server-process.js';
import { repeatUntil } from './wait.js';

/** Starts a service in development mode, and reads the token that its first start prints. */
export async function startOther(t: Test, options: ServerOptions & { script: string }) {
  const server = await startServer(t, { ...options, args: [...(options.args ?? []), '--dev'] });
  await repeatUntil(
    () => /Documentation[^]*\n\n/.test(server.stderr()),
    () => once(server.child.stderr!, 'data'),
  );
  const [, token = ''] = /Access tokens +(\w+_[\w-]{43}) /.exec(server.stderr()) ?? [];
  return { server, token };
}
