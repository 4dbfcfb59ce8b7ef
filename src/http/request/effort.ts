// Bounds the time that validation takes where several schemas apply to one value, or a schema contains itself.
import { unknownDepth } from '../../contract/shape.js';
import { ApiError } from '../../errors.js';

/** How often values may be checked against a schema, in one body. */
const maxChecks = 100_000;
/** A text of this length counts as another value, since it takes time to match. */
const textLength = 64;

/** Counts the checks of one validation: it runs to its end before another one starts. */
export class Effort {
  #checks = 0;

  start(): void {
    this.#checks = 0;
  }

  /**
   * Counts a value, what is directly in it, and the schemas that a schema combines.
   * @throws ApiError when there are too many.
   */
  readonly count = (schemas: number, data: unknown): true => {
    this.#checks += typeof data === 'string' ? schemas * sizeOfText(data) : schemas + sizeOf(data);
    if (this.#checks <= maxChecks) return true;
    throw new ApiError('invalidBody', { detail: 'it has too many values that can match several schemas' });
  };
}

function sizeOf(data: unknown): number {
  if (typeof data !== 'object' || data === null) return 1;
  return Object.values(data).reduce<number>(
    (size, value) => size + (typeof value === 'string' ? sizeOfText(value) : 1),
    1,
  );
}

function sizeOfText(text: string): number {
  return 1 + text.length / textLength;
}

/** @throws ApiError when a value is nested deeper than a validator can follow a schema that contains itself. */
export function limitDepth(data: unknown, left = unknownDepth): void {
  if (typeof data !== 'object' || data === null) return;
  if (left === 0) {
    throw new ApiError('invalidBody', { detail: `it is nested more than ${unknownDepth} levels deep` });
  }
  for (const value of Object.values(data)) limitDepth(value, left - 1);
}
