// Turns a value into what handlers get, and finds what they would get in another form than it was sent.
import { listedFaults } from '../../../base/errors.js';
import { setOwn, toDouble } from '../../../contract/document/exact-json.js';
import { pointerOf } from '../../../contract/document/finding.js';
import { UploadedFile } from '../../../contract/raw-body.js';
import { isBig } from '../../../contract/schema/json-types.js';
import type { Schema } from '../../../contract/schema/schema.js';
import { propertyShape } from '../../../contract/schema/shape.js';
import { unreadable } from '../texts.js';
import { appliedTo, evaluates, partsAt } from './applied.js';
import { fits } from './choice.js';
import type { Fault } from './fault-messages.js';
import type { Validation } from './verdict.js';

/** The properties of a schema that have defaults. */
const defaults = new WeakMap<Schema, [name: string, value: unknown][]>();

/** A walk through a value that has been judged, with all the schemas that apply to each part of it. */
export class Completion {
  /** The faults of values that cannot be kept, in no form that a schema names: some numbers, and broken texts. */
  readonly faults: Fault[] = [];
  readonly #validation: Validation;
  readonly #fillsIn: boolean;
  readonly #steps: string[] = [];

  /** @param fillsIn - Whether absent properties get their defaults. */
  constructor(validation: Validation, fillsIn: boolean) {
    this.#validation = validation;
    this.#fillsIn = fillsIn;
  }

  /** Completes a value, in place if it is an object or array. @returns What takes its place. */
  complete(value: unknown, schemas: readonly Schema[]): unknown {
    switch (typeof value) {
      case 'string':
        if (!value.isWellFormed()) this.#refuse('format', 'must not contain unpaired surrogates');
        return value;
      case 'object':
        if (value !== null && !(value instanceof UploadedFile) && !ArrayBuffer.isView(value))
          this.#completeParts(value, this.#applied(value, schemas));
        return value;
      case 'number':
      case 'bigint':
      case 'symbol':
        return this.#completeNumber(value, schemas);
      default:
        return value;
    }
  }

  /** An int64 is exact, whatever else the number may be. */
  #completeNumber(value: number | bigint | symbol, schemas: readonly Schema[]): unknown {
    const forms = this.#applied(value, schemas).map(({ number }) => number);
    if (typeof value === 'bigint' || Number.isSafeInteger(value)) {
      if (forms.some(isBig)) return BigInt(value as number | bigint);
      return forms.includes('double') ? Number(value) : value;
    }
    const double = typeof value === 'symbol' && forms.includes('double') ? toDouble(value) : value;
    if (typeof double === 'number' && Number.isFinite(double)) return double;
    const message = 'is a number with more digits than the server keeps: send it as a string';
    this.#refuse('type', unreadable(value) ?? message);
    return value;
  }

  #completeParts(owner: object, applied: readonly Schema[]): void {
    // Nothing is inherited here, and this takes less time than a list of the keys.
    for (const key in owner) {
      if (this.faults.length > listedFaults) return;
      this.#steps.push(key);
      const part = (owner as Record<string, unknown>)[key];
      // A text stays as it is.
      const parts = typeof part === 'string' ? [] : this.#partsAt(owner, key, applied);
      const completed = this.complete(part, parts);
      if (completed !== part) setOwn(owner, key, completed);
      this.#steps.pop();
    }
    if (this.#fillsIn && !Array.isArray(owner))
      for (const schema of applied)
        for (const [name, value] of defaultsOf(schema)) this.#fillIn(owner, name, value, applied);
  }

  /** Fills in a default that no schema refuses. */
  #fillIn(owner: object, name: string, value: unknown, applied: readonly Schema[]): void {
    if (Object.hasOwn(owner, name)) return;
    const parts = this.#partsAt(owner, name, applied);
    if (parts.every((part) => propertyShape(part).accepts(value)))
      setOwn(owner, name, this.complete(structuredClone(value), parts));
  }

  #applied(value: unknown, schemas: readonly Schema[]): readonly Schema[] {
    return appliedTo(value, schemas, (part) => this.#matches(part, value));
  }

  #matches(schema: Schema, value: unknown): boolean {
    return fits(schema, value) && this.#validation.judge(schema, value, '').isValid;
  }

  /** The schemas of a part, by all those of its owner. */
  #partsAt(owner: object, key: string, applied: readonly Schema[]): readonly Schema[] {
    let parts: readonly Schema[] = [];
    for (const schema of applied) {
      const rest = Array.isArray(owner) ? schema.unevaluatedItems : schema.unevaluatedProperties;
      const isRest =
        rest !== undefined && !evaluates(schema, owner, key, (part, value) => this.#matches(part, value));
      const more = isRest ? [rest] : partsAt(schema, owner, key);
      parts = parts.length === 0 ? more : [...parts, ...more];
    }
    return parts;
  }

  #refuse(rule: string, message: string): void {
    this.faults.push({ path: pointerOf(this.#steps), rule, message });
  }
}

function defaultsOf(schema: Schema): [name: string, value: unknown][] {
  let list = defaults.get(schema);
  if (list === undefined) {
    const all = Object.entries(schema.properties ?? {});
    list = all.map(([name, part]) => [name, propertyShape(part).default]);
    defaults.set(schema, (list = list.filter(([, value]) => value !== undefined)));
  }
  return list;
}
