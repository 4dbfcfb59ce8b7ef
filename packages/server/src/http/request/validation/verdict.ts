// Judges values by compiled schemas: what is wrong with a value, and what becomes of it where a schema applies.
import type { ValidateFunction } from 'ajv';
import { listedFaults } from '../../../base/errors.js';
import { setOwn } from '../../../contract/document/exact-json.js';
import { pointerOf } from '../../../contract/document/finding.js';
import type { Schema } from '../../../contract/schema/schema.js';
import { absent, type Shape } from '../../../contract/schema/shape.js';
import { faultAt, faultOf, type Fault, type ValueSource } from './fault-messages.js';

/** The place of a value, as Ajv passes it to the functions that it compiles. */
export type At = NonNullable<Parameters<ValidateFunction>[1]>;

/** The place of a part of an object or array. */
export function atPart(at: At, owner: object, key: string | number): At {
  return {
    instancePath: at.instancePath + pointerOf([key]),
    parentData: owner,
    parentDataProperty: key,
    rootData: at.rootData,
    dynamicAnchors: at.dynamicAnchors,
  };
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
   * Judges a value by a schema that is compiled by itself. Each object and array is judged once by each, however many
   * alternatives lead there: the time grows in proportion to the value.
   * @param outer - The verdict by the schema that leads there; none for the whole value.
   */
  judge(schema: Schema, data: unknown, at: At, outer?: Verdict): Verdict {
    if (outer === undefined || typeof data !== 'object' || data === null)
      return this.#judgeAgain(schema, data, at, outer);
    this.#verdicts ??= new Map();
    const ofData = this.#verdicts.get(data) ?? new Map<Schema, Verdict>();
    this.#verdicts.set(data, ofData);
    let verdict = ofData.get(schema);
    if (verdict === undefined) ofData.set(schema, (verdict = this.#judgeAgain(schema, data, at, outer)));
    return verdict;
  }

  #judgeAgain(schema: Schema, data: unknown, at: At, outer?: Verdict): Verdict {
    const verdict = new Verdict(this, outer);
    const validate = this.#find(schema);
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

/** The effects on a value, in the order in which they happen: an int64 is exact, whatever else the number may be. */
const effects = ['double', 'int64', 'default'] as const;
type Effect = (typeof effects)[number];
interface Note {
  readonly effect: Effect;
  readonly apply: () => void;
}

/**
 * The verdict on a value by one schema: Ajv passes it to our keywords, which note here what follows if the schema applies.
 * Whoever asked for the verdict accepts it, and what it notes, or not, as for an alternative that does not match.
 */
export class Verdict {
  readonly faults: Fault[] = [];
  readonly validation: Validation;
  readonly #outer: Verdict | undefined;
  readonly #accepted: Verdict[] = [];
  readonly #notes: Note[] = [];
  #shapes: Map<object, Shape[]> | undefined;

  constructor(validation: Validation, outer?: Verdict) {
    this.validation = validation;
    this.#outer = outer;
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
  refuse(at: At, data: unknown, rule: string, message: string, expected?: unknown): void {
    this.add(faultAt(at.instancePath, data, { rule, message, expected }));
  }

  /** Judges a value by another schema, whose verdict need not count. */
  judge(schema: Schema, data: unknown, at: At): Verdict {
    return this.validation.judge(schema, data, at, this);
  }

  /** Lets the verdict of a schema that applies to a value count. */
  accept(verdict: Verdict): void {
    this.#accepted.push(verdict);
    for (const fault of verdict.faults) this.add(fault);
  }

  /** Notes what becomes of a value if the schema applies. */
  note(effect: Effect, apply: () => void): void {
    this.#notes.push({ effect, apply });
  }

  /** Notes that handlers get a number in another form. */
  change({ parentData, parentDataProperty }: At, value: number | bigint): void {
    const effect = typeof value === 'bigint' ? 'int64' : 'double';
    this.note(effect, () => {
      setOwn(parentData, String(parentDataProperty), value);
    });
  }

  /** Notes the shape of an object: that of a schema with all that it combines. */
  describe(object: object, shape: Shape): void {
    this.#shapes ??= new Map();
    this.#shapes.set(object, [...(this.#shapes.get(object) ?? []), shape]);
  }

  /** The shapes of a property of an object, by all schemas that lead here. */
  shapesOf(object: object, name: string): Shape[] {
    const described = this.#shapes?.get(object)?.filter(({ properties }) => Object.hasOwn(properties, name));
    return [
      ...(described ?? []).map(({ properties }) => properties[name]!),
      ...(this.#outer?.shapesOf(object, name) ?? []),
    ];
  }

  /** Adds faults for properties that are missing, unless the object must not have them: another schema may say so. */
  require(object: object, at: At, names: readonly string[]): void {
    for (const name of names)
      if (!Object.hasOwn(object, name) && !this.shapesOf(object, name).includes(absent))
        this.add({ path: at.instancePath + pointerOf([name]), rule: 'required', message: 'is missing' });
  }

  /** Writes what follows from all schemas that apply: numbers in their forms, and if nothing is wrong, defaults. */
  complete(): void {
    const notes = this.#accepted.length === 0 ? this.#notes : this.#allNotes();
    for (const each of effects)
      if (this.isValid || each !== 'default')
        for (const { effect, apply } of notes) if (effect === each) apply();
  }

  #allNotes(): Note[] {
    const all = new Set<Verdict>([this]);
    for (const verdict of all) for (const part of verdict.#accepted) all.add(part);
    return [...all].flatMap((verdict) => verdict.#notes);
  }
}
