// Finds all faults and warnings that a start of the server would report for a contract.
import { readFileSync } from 'node:fs';
import { ConfigError } from '../process/config.js';
import { loadContract, type Contract } from '../contract/contract.js';
import { ContractError, formatFinding } from '../contract/document/finding.js';
import type { Finding } from '../contract/document/finding.js';
import { createErrorRenderer } from '../http/error-renderer.js';
import { Compiler, findWrongDefaults } from '../http/request/validation/validation.js';

/** The faults and warnings of a contract, and the contract if it could be read. */
export interface Checked {
  readonly faults: readonly Finding[];
  readonly warnings: readonly Finding[];
  readonly contract?: Contract;
}

/**
 * Checks a contract.
 * @param hasOwnErrors - Whether the service renders errors itself.
 * @throws ConfigError if the file cannot be read.
 */
export function checkContract(file: string, hasOwnErrors: boolean): Checked {
  try {
    const contract = loadContract(readFileSync(file), hasOwnErrors);
    const compiler = new Compiler();
    const faults = [
      ...findWrongDefaults(compiler, contract.defaults),
      ...(hasOwnErrors ? [] : findUnfitErrors(compiler, contract)),
    ];
    return { faults, warnings: contract.warnings, contract };
  } catch (error) {
    if (error instanceof ContractError) return error;
    if (error instanceof Error && 'syscall' in error) throw new ConfigError(error.message);
    throw error;
  }
}

/** Finds the operations whose errors seem to have the form of the server's, but do not allow all of them. */
function findUnfitErrors(compiler: Compiler, { operations }: Contract): Finding[] {
  return operations.flatMap((operation) => {
    try {
      createErrorRenderer(compiler, [operation], { errors: {} });
      return [];
    } catch (error) {
      return operation.node.find((error as Error).message, 'Allow it, or render errors with renderError');
    }
  });
}

/**
 * Prints the faults and warnings of a file to standard output, and their numbers to standard error. Warnings with the same
 * message are one line, with the first place.
 * @param isVerbose - Whether each warning is a line of its own.
 */
export function printFindings(
  file: string,
  { faults, warnings, contract }: Checked,
  isVerbose = false,
): void {
  const print = (kind: string, finding: Finding, more = '') => {
    console.log(`${file}:${formatFinding(finding).replace(' ', ` ${kind}: `)}${more}`);
  };
  for (const fault of faults) print('error', fault);
  const alike = new Map<string, Finding[]>();
  for (const warning of warnings) {
    const key = isVerbose ? String(alike.size) : warning.message;
    if (alike.get(key)?.push(warning) === undefined) alike.set(key, [warning]);
  }
  for (const [first, ...others] of alike.values())
    print('warning', first!, others.length === 0 ? '' : ` (And at ${count(others.length, 'other place')}.)`);
  const hint = alike.size === warnings.length ? '' : ' "check --verbose" lists all.';
  const rest = contract === undefined ? ' What depends on an error is not checked yet: more may follow.' : '';
  console.error(`${count(faults.length, 'error')}, ${count(warnings.length, 'warning')}.${rest}${hint}`);
}

function count(number: number, name: string): string {
  return `${number} ${name}${number === 1 ? '' : 's'}`;
}
