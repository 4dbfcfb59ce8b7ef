// Judges values by compiled schemas, each object and array once by each schema.
import type { ValidateFunction } from 'ajv';
import { listedFaults } from '../../../base/errors.js';
import { pointerOf } from '../../../contract/document/finding.js';
import type { Schema } from '../../../contract/schema/schema.js';
import { faultAt, faultOf, type Fault, type ValueSource } from './fault-messages.js';

/** The place of a value, as Ajv passes it to the functions that it compiles. */
export type At = NonNullable<Parameters<ValidateFunction>[1]>;

/** The place of a part of an object or array, as a JSON Pointer. */
export function placeIn(path: string, key: string | number): string {
  return path + pointerOf([key]);
}

/** One validation, of one value with all that is in it. */
export class Validation {
  /** Finds the compiled form of a schema. */
  readonly #find: (schema: Schema) => ValidateFunction;
  readonly source: ValueSource;
  #verdicts: Map<object, Map<Schema, Verdict>> | undefined;
  /** The numbers of arrays and objects, and those of contents. */
  #numbers: Map<unknown, number> | undefined;

  constructor(find: (schema: Schema) => ValidateFunction, source: ValueSource) {
    this.#find = find;
    this.source = source;
  }

  /**
   * Judges a part of the value by a schema that is compiled by itself. Each object and array is judged once by each,
   * however many alternatives lead there: the time grows in proportion to the value.
   */
  judge(schema: Schema, data: unknown, path: string): Verdict {
    if (typeof data !== 'object' || data === null) return this.judgeWhole(schema, data, path);
    this.#verdicts ??= new Map();
    const ofData = this.#verdicts.get(data) ?? new Map<Schema, Verdict>();
    this.#verdicts.set(data, ofData);
    let verdict = ofData.get(schema);
    if (verdict === undefined) ofData.set(schema, (verdict = this.judgeWhole(schema, data, path)));
    return verdict;
  }

  /** Judges a value to which no alternatives lead. */
  judgeWhole(schema: Schema, data: unknown, path = ''): Verdict {
    const verdict = new Verdict(this);
    const validate = this.#find(schema);
    // No keyword looks at anything else.
    const at = { instancePath: path } as At;
    if (validate.call(verdict, data, at)) return verdict;
    for (const error of validate.errors?.slice(0, listedFaults + 1) ?? [])
      verdict.add(faultOf(error, this.source));
    return verdict;
  }

  /** Returns a number that equal values have in common, and no others. Each object and array is looked at once. */
  numberOf(value: unknown): number {
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
    if (Array.isArray(value)) return `[${value.map((item) => this.numberOf(item)).join()}`;
    // A bigint equals the same number; the digits of a symbol are those that were sent.
    if (typeof value !== 'object' || value === null)
      return typeof value === 'string' ? `"${value}` : String(value);
    if (ArrayBuffer.isView(value)) return `b${Buffer.from(value as Uint8Array).toString('latin1')}`;
    const entries = Object.entries(value).map(
      ([name, part]) => `${this.numberOf(name)}:${this.numberOf(part)}`,
    );
    return `{${entries.sort().join()}`;
  }
}

/**
 * The verdict on a value by one schema: Ajv passes it to our keywords, which add their faults. Whoever asked for the
 * verdict accepts it or not, as for an alternative that does not match.
 */
export class Verdict {
  readonly faults: Fault[] = [];
  readonly validation: Validation;

  constructor(validation: Validation) {
    this.validation = validation;
  }

  /** Whether the value matches the schema. */
  get isValid(): boolean {
    return this.faults.length === 0;
  }

  /** Adds a fault, at most one more than are listed. */
  add(fault: Fault): void {
    if (this.faults.length <= listedFaults) this.faults.push(fault);
  }

  /** Adds a fault of a value. */
  refuse(path: string, data: unknown, rule: string, message: string, expected?: unknown): void {
    this.add(faultAt(path, data, { rule, message, expected }));
  }

  /** Judges a value by another schema, whose verdict need not count. */
  judge(schema: Schema, data: unknown, path: string): Verdict {
    return this.validation.judge(schema, data, path);
  }

  /** Lets the verdict of a schema that applies to a value count. */
  accept({ faults }: Verdict): void {
    for (const fault of faults) this.add(fault);
  }
}
