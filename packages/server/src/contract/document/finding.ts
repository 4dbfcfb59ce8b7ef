// Findings about a contract, and their places. This module loads nothing that reads contracts.
import { unescape } from 'node:querystring';

/** A fault of a contract, or a reason for a warning, with its place. */
export interface Finding {
  /** A JSON Pointer (RFC 6901); empty for the whole document. */
  readonly pointer: string;
  /** The place in the file; both count from 1. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
  /** The remedy. */
  readonly fix: string;
}

/** A place as a JSON Pointer (RFC 6901). */
export function pointerOf(steps: readonly (string | number)[]): string {
  return steps.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** The steps of a reference (RFC 6901 section 6); undefined if it does not lead to a part of the document. */
export function stepsOf(reference: string): string[] | undefined {
  const [start, ...steps] = reference.split('/');
  if (start !== '#' || steps.length === 0) return undefined;
  return steps.map((step) => unescape(step).replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** The contract has faults; the message lists all of them, one per line. */
export class ContractError extends Error {
  override readonly name = 'ContractError';
  readonly faults: readonly Finding[];
  readonly warnings: readonly Finding[];

  constructor(faults: readonly Finding[], warnings: readonly Finding[]) {
    super(['The contract cannot be served:', ...faults.map(formatFinding)].join('\n'));
    this.faults = faults;
    this.warnings = warnings;
  }
}

/**
 * Formats a finding as one line: `12:3 /paths: must be an object. Write …`; without a pointer if it is of the text.
 */
export function formatFinding({ line, column, pointer, message, fix }: Finding): string {
  return `${line}:${column} ${pointer === '' ? '' : `${pointer}: `}${message}. ${fix}.`;
}

/** Findings by their places in the file. */
export function inOrder(findings: readonly Finding[]): Finding[] {
  return [...findings].sort((a, b) => a.line - b.line || a.column - b.column);
}
