// Tells systemd how the service is, if systemd waits for that. Node.js has no Unix datagram sockets (sd_notify(3)), so a
// child process of systemd's own program does it.
import { execFile } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';

type Log = Pick<FastifyBaseLogger, 'warn'>;

/**
 * Tells systemd regularly that the service responds (`WatchdogSec=`, sd_watchdog_enabled(3)): twice in the time after which
 * systemd would end it. Does nothing if systemd does not ask for it.
 * @param respond - Resolves when all threads have responded; otherwise, systemd learns nothing more.
 */
export async function feedWatchdog(log: Log, respond: () => Promise<unknown>): Promise<void> {
  const microseconds = Number(process.env['WATCHDOG_USEC']);
  if (!(microseconds > 0)) return;
  for (;;) {
    await respond();
    notify('WATCHDOG=1', log);
    await pause(microseconds / 2_000, undefined, { ref: false });
  }
}

/** Tells systemd a state, such as `READY=1` (`Type=notify`). */
export function notify(state: string, log: Log): void {
  if (process.env['NOTIFY_SOCKET'] === undefined) return;
  execFile('systemd-notify', [state], (error) => {
    if (error !== null)
      log.warn({ err: error, state }, 'systemd-notify failed: systemd does not learn the state');
  });
}
