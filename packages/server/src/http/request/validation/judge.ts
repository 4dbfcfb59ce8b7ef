// Judges a value by schemas: what is wrong with it, and which schemas apply to it and to its parts.
import { listedFaults } from '../../../base/errors.js';
import { pointerOf } from '../../../contract/document/finding.js';
import { UploadedFile } from '../../../contract/raw-body.js';
import { patternOf } from '../../../contract/schema/pattern.js';
import { isNothing, type Schema } from '../../../contract/schema/schema.js';
import { faultAt, type Fault, type ValueSource } from './fault-messages.js';

/** The place of a value in an object or array. */
export interface Place {
  readonly owner: object;
  readonly key: string;
  /** The place of the owner; undefined for that of the whole value. */
  readonly outer: Place | undefined;
}

/**
 * Checks a value by a keyword, and adds what is wrong to the faults.
 * @param together - All schemas that apply to the value, apart from alternatives.
 */
export type Check = (judge: Judge, data: unknown, at: Place, together: readonly Schema[]) => void;

/** Returns the alternatives that apply to a value: those that match, or the only one that may. */
export type Choose = (
  judge: Judge,
  data: unknown,
  at: Place,
  together?: readonly Schema[],
) => readonly Schema[];

/** What is known about a schema before values arrive. */
export interface Plan {
  readonly checks: readonly Check[];
  /** Whether it combines no schemas, which would apply to the same value. */
  readonly isAlone: boolean;
  readonly choices: readonly Choose[];
  /** The defaults of properties. */
  readonly defaults: readonly (readonly [name: string, value: unknown])[];
}

/** The keywords of properties that no other keyword names. */
const restKeywords = ['additionalProperties', 'unevaluatedProperties'] as const;

/** Judges one value with all that is in it. */
export class Judge {
  readonly planOf: (schema: Schema) => Plan;
  readonly source: ValueSource;
  #faults: Fault[] = [];
  #judged: Map<object, Map<Schema, readonly Fault[]>> | undefined;
  /** The numbers of arrays and objects, and those of contents. */
  #numbers: Map<unknown, number> | undefined;

  constructor(planOf: (schema: Schema) => Plan, source: ValueSource) {
    this.planOf = planOf;
    this.source = source;
  }

  /** Returns the faults of the whole value. */
  judge(schema: Schema, data: unknown, at: Place): readonly Fault[] {
    this.#apply([schema], data, at, []);
    return this.#faults;
  }

  /**
   * Returns the faults of a value by a schema, which need not count. Each object and array is judged once by each schema,
   * however many alternatives lead there: the time grows in proportion to the value.
   * @param outer - Schemas of the value that count by themselves.
   */
  faultsOf(schema: Schema, data: unknown, at: Place, outer: readonly Schema[] = []): readonly Fault[] {
    const isScalar = typeof data !== 'object' || data === null;
    const judged = isScalar ? undefined : this.#judged?.get(data)?.get(schema);
    if (judged !== undefined) return judged;
    const before = this.#faults;
    const faults: Fault[] = (this.#faults = []);
    this.#apply([schema], data, at, outer);
    this.#faults = before;
    if (isScalar) return faults;
    this.#judged ??= new Map();
    const ofData = this.#judged.get(data) ?? new Map<Schema, readonly Fault[]>();
    this.#judged.set(data, ofData.set(schema, faults));
    return faults;
  }

  /** Checks a value by schemas that apply to it at the same time. */
  #apply(schemas: readonly Schema[], data: unknown, at: Place, outer: readonly Schema[]): void {
    const all = this.together(schemas, data, at, false);
    const together = outer.length === 0 ? all : [...outer, ...all];
    for (const schema of all) for (const check of this.planOf(schema).checks) check(this, data, at, together);
    if (!isContainer(data)) return;
    for (const key of Object.keys(data)) {
      const value = (data as Record<string, unknown>)[key];
      const place = { owner: data, key, outer: at };
      const parts = this.insideAll(all, data, key, at);
      const rule =
        parts.some(isNothing) &&
        !Array.isArray(data) &&
        restKeywords.find((keyword) =>
          all.some(({ [keyword]: rest }) => rest !== undefined && parts.includes(rest) && isNothing(rest)),
        );
      const [part] = parts;
      if (rule) this.refuse(place, value, rule, 'is unknown');
      else if (this.#judged !== undefined && parts.length === 1 && isContainer(value))
        this.addAll(this.faultsOf(part!, value, place));
      else if (part !== undefined) this.#apply(parts, value, place, []);
    }
  }

  /** Adds a fault, at most one more than are listed. */
  add(fault: Fault): void {
    if (this.#faults.length <= listedFaults) this.#faults.push(fault);
  }

  addAll(faults: readonly Fault[]): void {
    for (const fault of faults) this.add(fault);
  }

  /** Adds a fault of a value. */
  refuse(at: Place, data: unknown, rule: string, message: string, expected?: unknown): void {
    this.add(faultAt(pathOf(at), data, { rule, message, expected }));
  }

  /**
   * Returns schemas, and those that they combine and that apply to a value, too, each once.
   * @param chooses - Whether alternatives are among them.
   */
  together(schemas: readonly Schema[], data: unknown, at: Place, chooses: boolean): readonly Schema[] {
    if (schemas.every((schema) => this.planOf(schema).isAlone)) return schemas;
    const all = new Set(schemas);
    for (const schema of all) for (const part of this.combined(schema, data, at, chooses)) all.add(part);
    return [...all];
  }

  /** Returns the schemas that a schema combines and that apply to a value. */
  combined(schema: Schema, data: unknown, at: Place, chooses: boolean): readonly Schema[] {
    const { isAlone, choices } = this.planOf(schema);
    if (isAlone) return [];
    const { allOf = [], if: condition, then, else: otherwise, dependentSchemas = {} } = schema;
    const isTrue = condition !== undefined && this.faultsOf(condition, data, at).length === 0;
    const branch = condition === undefined ? [] : isTrue ? [condition, then] : [otherwise];
    const dependent = Object.entries(dependentSchemas).map(([name, part]) =>
      isObject(data) && Object.hasOwn(data, name) ? part : undefined,
    );
    const parts = [...allOf, ...branch, ...dependent].filter((part) => part !== undefined);
    return chooses ? [...parts, ...choices.flatMap((choose) => choose(this, data, at))] : parts;
  }

  /** Returns the schemas of a part of an object or array, each once. */
  insideAll(schemas: readonly Schema[], data: object, key: string, at: Place): readonly Schema[] {
    const [schema] = schemas;
    if (schemas.length === 1) return this.#inside(schema!, data, key, at);
    return [...new Set(schemas.flatMap((each) => this.#inside(each, data, key, at)))];
  }

  #inside(schema: Schema, data: object, key: string, at: Place): readonly Schema[] {
    const isArray = Array.isArray(data);
    const parts = isArray ? itemSchemas(schema, Number(key)) : propertySchemas(schema, key);
    const rest = isArray ? schema.unevaluatedItems : schema.unevaluatedProperties;
    if (parts.length > 0 || rest === undefined) return parts;
    const isEvaluated = this.together([schema], data, at, true).some(
      (part) =>
        (part !== schema && this.#inside(part, data, key, at).length > 0) ||
        this.#contains(part, data, key, at),
    );
    return isEvaluated ? [] : [rest];
  }

  #contains({ contains }: Schema, data: object, key: string, at: Place): boolean {
    if (contains === undefined || !Array.isArray(data)) return false;
    return this.faultsOf(contains, data[Number(key)], { owner: data, key, outer: at }).length === 0;
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

/** A place as a JSON Pointer. */
export function pathOf({ outer, key }: Place): string {
  return outer === undefined ? '' : pathOf(outer) + pointerOf([key]);
}

export function isObject(data: unknown): data is object {
  return typeof data === 'object' && data !== null && !Array.isArray(data);
}

/** Whether a value has parts that schemas describe. */
function isContainer(data: unknown): data is object {
  return typeof data === 'object' && data !== null && !isBytes(data);
}

/** Whether an object is bytes, a whole body or a file of a form. */
export function isBytes(data: object): data is UploadedFile | Uint8Array {
  return data instanceof UploadedFile || data instanceof Uint8Array;
}

function itemSchemas({ prefixItems = [], items }: Schema, index: number): readonly Schema[] {
  return [prefixItems[index] ?? items].filter((part) => part !== undefined);
}

function propertySchemas(schema: Schema, name: string): readonly Schema[] {
  const { properties, patternProperties, additionalProperties } = schema;
  const parts = properties !== undefined && Object.hasOwn(properties, name) ? [properties[name]!] : [];
  if (patternProperties !== undefined)
    for (const [pattern, part] of Object.entries(patternProperties))
      if (patternOf(pattern).test(name)) parts.push(part);
  if (parts.length === 0 && additionalProperties !== undefined) parts.push(additionalProperties);
  return parts;
}
