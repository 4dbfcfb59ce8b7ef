// Describes to the operator why a process cannot start, or a command fails.
import { inspect } from 'node:util';
import { ContractError } from '../contract/document/finding.js';
import { UpgradeError } from '../http/connection/upgrade.js';
import { RouteError } from '../http/routing/outside-routes.js';
import type { Service } from '../service/definition.js';
import { OpenError } from '../service/opened-service.js';
import { StorageError } from '../storage/core/interface.js';
import { AddressError, ConfigError, configStatus } from './config.js';

/** An error that the command reports by its message alone. */
export class CommandError extends Error {
  /** The exit status of the command. */
  readonly status: number;

  constructor(message: string, { status = 1, ...options }: ErrorOptions & { status?: number } = {}) {
    super(message, options);
    this.status = status;
  }
}

/** A thread could not start. The message is for the operator, and names the service. */
export class ThreadStartError extends Error {
  override readonly name = 'ThreadStartError';
}

/** Describes why a process cannot start, or a command fails: only the message if the operator can fix it, otherwise with the stack. */
export function describeFault(error: unknown, { name }: Service): string {
  if (error instanceof ContractError || error instanceof ThreadStartError) return error.message;
  const isOurs = [ConfigError, CommandError, StorageError, OpenError, UpgradeError, RouteError].some(
    (kind) => error instanceof kind,
  );
  if (!(error instanceof Error) || !(isOurs || 'syscall' in error)) return inspect(error);
  return error.message.replaceAll(/^/gm, `${name}: `);
}

/** The exit status of such a process: one of its own if a restart alone would change nothing. */
export function statusOf(error: unknown): number {
  if (error instanceof CommandError) return error.status;
  if (error instanceof UpgradeError) return configStatus;
  return error instanceof ConfigError && !(error instanceof AddressError) ? configStatus : 1;
}
