// Remembers verdicts about the values of one request while they are validated.
import type { ErrorObject, ValidateFunction } from 'ajv';
import { UploadedFile } from '../../../contract/raw-body.js';

/** The place of a value, as Ajv passes it to the functions that it compiles. */
export type At = Parameters<ValidateFunction>[1];

/**
 * Remembers which schemas the objects and arrays of a request match, so that each is validated once by each schema that is
 * referred to, however often and in however many alternatives: the time grows in proportion to the body.
 */
export class Verdicts {
  #errors: Map<object, Map<ValidateFunction, readonly ErrorObject[] | null>> | undefined;
  /** The numbers of arrays and objects, and those of contents. */
  #numbers: Map<unknown, number> | undefined;

  /** Whether a value matches a compiled schema. */
  holds(validate: ValidateFunction, data: unknown, at?: At): boolean {
    return this.errorsOf(validate, data, at) === null;
  }

  /** The errors of a value; null if there are none. */
  errorsOf(validate: ValidateFunction, data: unknown, at?: At): readonly ErrorObject[] | null {
    if (typeof data !== 'object' || data === null) return this.#validate(validate, data, at);
    this.#errors ??= new Map();
    const known = this.#errors.get(data) ?? new Map<ValidateFunction, readonly ErrorObject[] | null>();
    this.#errors.set(data, known);
    let errors = known.get(validate);
    if (errors === undefined) known.set(validate, (errors = this.#validate(validate, data, at)));
    return errors;
  }

  #validate(validate: ValidateFunction, data: unknown, at?: At): readonly ErrorObject[] | null {
    return validate.call(this, data, at) ? null : (validate.errors ?? []);
  }

  /** Whether an object or array is known to match a compiled schema; undefined if it has not been validated by it. */
  known(validate: ValidateFunction, data: object): boolean | undefined {
    const errors = this.#errors?.get(data)?.get(validate);
    return errors === undefined ? undefined : errors === null;
  }

  /** Whether no two items of an array are equal. */
  areDistinct(items: readonly unknown[]): boolean {
    return new Set(items.map((item) => this.#numberOf(item))).size === items.length;
  }

  /** Returns a number that equal values have in common, and no others. */
  #numberOf(value: unknown): number {
    const numbers = (this.#numbers ??= new Map<unknown, number>());
    const isContainer = typeof value === 'object' && value !== null;
    const content = (isContainer ? numbers.get(value) : undefined) ?? this.#contentOf(value);
    if (typeof content === 'number') return content;
    const number = numbers.get(content) ?? numbers.size;
    numbers.set(content, number);
    if (isContainer) numbers.set(value, number);
    return number;
  }

  #contentOf(value: unknown): string {
    if (Array.isArray(value)) return `[${value.map((item) => this.#numberOf(item)).join()}`;
    if (value instanceof UploadedFile)
      return `f${value.filename} ${value.mediaType} ${Buffer.from(value.bytes).toString('base64')}`;
    if (typeof value !== 'object' || value === null)
      // A bigint equals the same number; the digits of a symbol are those that were sent.
      return typeof value === 'string' ? `"${value}` : String(value);
    const entries = Object.entries(value).map(
      ([name, part]) => `${this.#numberOf(name)}:${this.#numberOf(part)}`,
    );
    return `{${entries.sort().join()}`;
  }
}
