// Gives handlers values in the form that they expect: integers of 64 bits as bigints, and defaults.
import { listedFaults } from '../../../base/errors.js';
import { isInexact, setOwn, toDouble } from '../../../contract/document/exact-json.js';
import { isBig } from '../../../contract/schema/json-types.js';
import type { Schema } from '../../../contract/schema/schema.js';
import { propertyOf, shapeOf, type Shape } from '../../../contract/schema/shape.js';
import { unreadable } from '../texts.js';
import type { Fault } from './fault-messages.js';
import { isBytes, isObject, pathOf, type Judge, type Place } from './judge.js';

/** Completes one value, in place, with all that is in it. */
export class Completion {
  readonly #judge: Judge;
  readonly #fills: boolean;
  /** The faults of values that handlers would get in another form than they were sent: some numbers, and broken texts. */
  readonly faults: Fault[] = [];

  /** @param fills - Whether defaults are filled in. */
  constructor(judge: Judge, fills: boolean) {
    this.#judge = judge;
    this.#fills = fills;
  }

  /** Completes the value at a place. @param schemas - Those that apply to it. */
  complete(schemas: readonly Schema[], at: Place): void {
    const { owner, key } = at;
    const data = (owner as Record<string, unknown>)[key];
    if (typeof data === 'string') {
      if (!data.isWellFormed()) this.#refuse(at, 'format', 'must not contain unpaired surrogates');
    } else if (typeof data === 'object' && data !== null) {
      if (!isBytes(data)) this.#completeParts(schemas, data, at);
    } else if (typeof data === 'number' || typeof data === 'bigint' || isInexact(data))
      this.#completeNumber(this.#judge.together(schemas, data, at, true), data, at);
  }

  #completeParts(schemas: readonly Schema[], data: object, at: Place): void {
    if (this.#fills && isObject(data)) for (const schema of schemas) this.#fill(schema, data, at, schemas);
    const all = this.#judge.together(schemas, data, at, true);
    for (const key of Object.keys(data)) {
      if (this.faults.length > listedFaults) return;
      this.complete(this.#judge.insideAll(all, data, key, at), { owner: data, key, outer: at });
    }
  }

  /** Fills in the defaults of a schema, and of those that it combines, that neither these nor outer ones refuse. */
  #fill(schema: Schema, data: object, at: Place, outer: readonly Schema[]): void {
    const all = [...outer, schema];
    const { isAlone, defaults } = this.#judge.planOf(schema);
    for (const [name, value] of defaults)
      if (!Object.hasOwn(data, name) && !all.some((each) => refuses(shapeOf(each), name, value)))
        setOwn(data, name, structuredClone(value));
    if (isAlone) return;
    for (const part of this.#judge.combined(schema, data, at, true)) this.#fill(part, data, at, all);
  }

  #completeNumber(all: readonly Schema[], data: number | bigint | symbol, at: Place): void {
    const isDouble = all.some(({ number }) => number === 'double');
    if (all.some(({ number }) => isBig(number)) && (typeof data === 'bigint' || Number.isSafeInteger(data)))
      setOwn(at.owner, at.key, BigInt(data as bigint | number));
    else if (isDouble && typeof data !== 'number') setOwn(at.owner, at.key, toDouble(data));
    else if (typeof data === 'symbol' || (typeof data === 'number' && !Number.isFinite(data)))
      this.#refuse(
        at,
        'type',
        unreadable(data) ?? 'is a number with more digits than the server keeps: send it as a string',
      );
  }

  #refuse(at: Place, rule: string, message: string): void {
    this.faults.push({ path: pathOf(at), rule, message });
  }
}

function refuses(shape: Shape, name: string, value: unknown): boolean {
  return !propertyOf(shape, name).accepts(value);
}
