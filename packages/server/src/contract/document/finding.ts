// What is said about a contract.

/** What is wrong with a contract, or worth a warning, and where. */
export interface Finding {
  /** A JSON Pointer (RFC 6901); empty for the whole document. */
  readonly pointer: string;
  /** The place in the file; both count from 1. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
  /** What to write instead. */
  readonly fix: string;
}

/** A place as a JSON Pointer (RFC 6901). */
export function pointerOf(steps: readonly (string | number)[]): string {
  return steps.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}
