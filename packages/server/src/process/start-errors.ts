// Describes to the operator why a process cannot start.
import { inspect } from 'node:util';
import { ContractError } from '../contract/document/finding.js';
import { UpgradeError } from '../http/connection/upgrade.js';
import { RouteError } from '../http/routing/outside-routes.js';
import type { Service } from '../service/definition.js';
import { OpenError } from '../service/opened-service.js';
import { StorageError } from '../storage/core/interface.js';
import { AddressError, ConfigError, configStatus } from './config.js';

/** A thread could not start. The message is for the operator, and names the service. */
export class ThreadStartError extends Error {
  override readonly name = 'ThreadStartError';
}

/** Describes why a process cannot start: only the message if the operator can fix it, otherwise with the stack. */
export function describeFault(error: unknown, { name }: Service): string {
  if (error instanceof ContractError || error instanceof ThreadStartError) return error.message;
  const isOurs = [ConfigError, StorageError, OpenError, UpgradeError, RouteError].some(
    (kind) => error instanceof kind,
  );
  if (!(error instanceof Error) || !(isOurs || 'syscall' in error)) return inspect(error);
  return error.message.replaceAll(/^/gm, `${name}: `);
}

/** The exit status of a process that cannot start: one of its own if a restart alone would change nothing. */
export function statusOf(error: unknown): number {
  if (error instanceof UpgradeError) return configStatus;
  return error instanceof ConfigError && !(error instanceof AddressError) ? configStatus : 1;
}
