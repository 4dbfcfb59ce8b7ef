// Judges values by compiled schemas: what is wrong with a value, and what becomes of it where the schema applies.
import type { ValidateFunction } from 'ajv';
import { listedFaults } from '../../../base/errors.js';
import { setOwn } from '../../../contract/document/exact-json.js';
import { pointerOf } from '../../../contract/document/finding.js';
import type { Schema } from '../../../contract/schema/schema.js';
import { propertyShape } from '../../../contract/schema/shape.js';
import { faultAt, faultOf, type Fault, type ValueSource } from './fault-messages.js';

/** The maximum number of defaults that are filled in: a short body can have very many objects that lack them. */
const maxDefaults = 10_000;

/** The place of a value, as Ajv passes it to the functions that it compiles. */
export type At = NonNullable<Parameters<ValidateFunction>[1]>;

/** The place of a part of an object or array. */
export function atPart(at: At, owner: object, key: string | number): At {
  const instancePath = at.instancePath + pointerOf([key]);
  return { ...at, instancePath, parentData: owner, parentDataProperty: key };
}

/** One validation, of one value with all that is in it. */
export class Validation {
  /** Finds the compiled form of a schema. */
  readonly #find: (schema: Schema) => ValidateFunction;
  readonly source: ValueSource;
  #verdicts: Map<object, Map<Schema, Verdict>> | undefined;
  /** The numbers of arrays and objects, and those of contents. */
  #numbers: Map<unknown, number> | undefined;
  /** Whether a schema that describes an object of the value has defaults. */
  hasDefaults = false;
  #defaults = 0;

  constructor(find: (schema: Schema) => ValidateFunction, source: ValueSource) {
    this.#find = find;
    this.source = source;
  }

  /**
   * Judges a value by a schema that is compiled by itself. Each object and array is judged once by each, however many
   * alternatives lead there: the time grows in proportion to the value.
   * @param outer - The verdict by the schema that leads there.
   */
  judge(schema: Schema, data: unknown, at: At, outer?: Verdict): Verdict {
    if (typeof data !== 'object' || data === null) return this.#judgeAgain(schema, data, at, outer);
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

  /** Counts a default. @returns Whether there are too many. */
  countDefault(): boolean {
    return ++this.#defaults > maxDefaults;
  }

  /** Whether no two items of an array are equal. */
  areDistinct(items: readonly unknown[]): boolean {
    return new Set(items.map((item) => this.numberOf(item))).size === items.length;
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

/** A number that handlers get in another form, and where it is. */
interface Change {
  readonly owner: object;
  readonly key: string;
  readonly value: number | bigint;
}

/** An object that lacks required properties, unless a schema that applies to it refuses them. */
interface Lack {
  readonly object: object;
  readonly path: string;
  readonly names: readonly string[];
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
  readonly #changes: Change[] = [];
  /** The schemas that describe properties of objects. */
  #described: Map<object, Schema[]> | undefined;
  readonly #lacks: Lack[] = [];

  constructor(validation: Validation, outer?: Verdict) {
    this.validation = validation;
    this.#outer = outer;
  }

  /** Whether the value matches the schema. */
  get isValid(): boolean {
    this.settle();
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
  accept(verdict: Verdict, data: unknown): void {
    this.#accepted.push(verdict);
    for (const fault of verdict.faults) this.add(fault);
    for (const lack of verdict.#lacks) this.miss(lack);
    if (typeof data !== 'object' || data === null) return;
    for (const schema of verdict.#described?.get(data) ?? []) this.describe(data, schema);
  }

  /** Notes that handlers get a number in another form. */
  change({ parentData: owner, parentDataProperty: key }: At, value: number | bigint): void {
    this.#changes.push({ owner, key: String(key), value });
  }

  /** Notes that a schema describes properties of an object. */
  describe(object: object, schema: Schema): void {
    this.validation.hasDefaults ||= defaultsOf(schema).length > 0;
    this.#described ??= new Map();
    const schemas = this.#described.get(object);
    if (schemas === undefined) this.#described.set(object, [schema]);
    else schemas.push(schema);
  }

  /** Notes that an object lacks required properties. Another schema may refuse them, so it is not yet a fault. */
  miss(lack: Lack): void {
    this.#lacks.push(lack);
  }

  /** Decides which properties are missing. */
  settle(): void {
    if (this.#lacks.length === 0) return;
    const missing: Fault[] = [];
    for (const { object, path, names } of this.#lacks.splice(0)) {
      if (missing.length > listedFaults) break;
      for (const name of names)
        if (!this.#isRefused(object, name))
          missing.push({ path: path + pointerOf([name]), rule: 'required', message: 'is missing' });
    }
    this.faults.unshift(...missing);
    this.faults.splice(listedFaults + 1);
  }

  #isRefused(object: object, name: string): boolean {
    const schemas = this.#described?.get(object) ?? [];
    if (schemas.some(({ properties = {} }) => Object.hasOwn(properties, name) && properties[name]!.refused))
      return true;
    return this.#outer !== undefined && this.#outer.#isRefused(object, name);
  }

  /** Writes what follows from all schemas that apply: numbers in their forms, and if nothing is wrong, defaults. */
  complete(): void {
    const all = new Set<Verdict>([this]);
    for (const verdict of all) for (const part of verdict.#accepted) all.add(part);
    // An int64 is exact, whatever else the number may be.
    for (const type of ['number', 'bigint'])
      for (const verdict of all)
        for (const { owner, key, value } of verdict.#changes)
          if (typeof value === type) setOwn(owner, key, value);
    if (!this.isValid || !this.validation.hasDefaults) return;
    const described = new Map<object, Schema[]>();
    for (const verdict of all)
      for (const [object, schemas] of verdict.#described ?? [])
        described.set(object, described.get(object)?.concat(schemas) ?? schemas);
    for (const [object, schemas] of described)
      for (const schema of schemas)
        for (const [name, value] of defaultsOf(schema))
          if (!Object.hasOwn(object, name) && allow(schemas, name, value))
            this.#fillIn(object, name, schema.properties![name]!, value);
  }

  #fillIn(object: object, name: string, schema: Schema, value: unknown): void {
    if (this.validation.countDefault()) {
      const message = 'has too many defaults to fill in: send fewer values at a time';
      if (this.isValid) this.add({ path: '', rule: 'default', message });
      return;
    }
    setOwn(object, name, structuredClone(value));
    const filled = (object as Record<string, unknown>)[name];
    const at = { instancePath: '', parentData: object, parentDataProperty: name } as At;
    this.judge(schema, filled, at).complete();
  }
}

const defaults = new WeakMap<Schema, readonly [string, unknown][]>();

/** The properties of a schema that have defaults, with them. */
function defaultsOf(schema: Schema): readonly [string, unknown][] {
  let ofSchema = defaults.get(schema);
  if (ofSchema === undefined) {
    ofSchema = Object.entries(schema.properties ?? {})
      .map(([name, property]): [string, unknown] => [name, propertyShape(property).default])
      .filter(([, value]) => value !== undefined);
    defaults.set(schema, ofSchema);
  }
  return ofSchema;
}

/** Whether no schema of an object refuses the value of a property. */
function allow(schemas: readonly Schema[], name: string, value: unknown): boolean {
  for (const { properties = {} } of schemas)
    if (Object.hasOwn(properties, name) && propertyShape(properties[name]!).accepts?.(value) === false)
      return false;
  return true;
}
