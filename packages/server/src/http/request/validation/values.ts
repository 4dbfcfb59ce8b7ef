// Turns the values of a request into what handlers expect, by the schemas that apply: exact integers, doubles, defaults.
import { listedFaults } from '../../../base/errors.js';
import { setOwn, toDouble } from '../../../contract/document/exact-json.js';
import { pointerOf } from '../../../contract/document/finding.js';
import { UploadedFile } from '../../../contract/raw-body.js';
import { patternOf } from '../../../contract/schema/pattern.js';
import type { NumberForm } from '../../../contract/schema/json-types.js';
import { isAnything, type Schema } from '../../../contract/schema/schema.js';
import { propertyShape, unknownDepth } from '../../../contract/schema/shape.js';
import { unreadable } from '../texts.js';
import { placeOf, type Fault } from './fault-messages.js';

/** The maximum number of defaults that are filled in: a short body can have very many objects that lack them. */
const maxDefaults = 10_000;

/** The place of a value in another one. */
interface Path {
  readonly outer: Path | undefined;
  readonly step: string | number;
}

/** Whether a value matches a schema that applies to some values only. */
export type Matches = (schema: Schema, value: unknown) => boolean;

/** Reads values, in place as far as they are objects and arrays. */
export class ValueReader {
  /** Values that cannot be kept exactly, or filled in. */
  readonly faults: Fault[] = [];
  readonly #matches: Matches;
  #defaults = 0;

  constructor(matches: Matches) {
    this.#matches = matches;
  }

  /**
   * Reads a value.
   * @param schemas - The schemas that apply to it; none if the contract says nothing about it.
   * @param path - Its place; undefined for the whole value.
   */
  read(schemas: readonly Schema[], value: unknown, path?: Path): unknown {
    if (schemas.length === 0) {
      this.#checkUnknown(value, path, 0);
      return value;
    }
    if (typeof value === 'string' || typeof value === 'boolean' || value === null) return value;
    const applying: Schema[] = [];
    for (const schema of schemas) this.#collect(schema, value, applying);
    if (typeof value !== 'object') return this.#readNumber(applying, value, path);
    if (value instanceof UploadedFile || ArrayBuffer.isView(value)) return value;
    if (Array.isArray(value)) {
      const items: unknown[] = value;
      for (const [i, item] of items.entries())
        items[i] = this.read(itemSchemas(applying, i), item, { outer: path, step: i });
      return items;
    }
    const object = value as Record<string, unknown>;
    for (const name of Object.keys(object)) {
      const given = object[name];
      if (typeof given === 'string' && isDescribed(applying, name)) continue;
      const read = this.read(propertySchemas(applying, name), given, { outer: path, step: name });
      if (read !== given) setOwn(object, name, read);
    }
    this.#fillIn(applying, object);
    return object;
  }

  /** Finds the schemas that apply to a value together, among them all alternatives that it matches. */
  #collect(schema: Schema, value: unknown, applying: Schema[]): void {
    applying.push(schema);
    const { allOf, anyOf, oneOf, if: condition, then, else: otherwise, dependentSchemas } = schema;
    if (allOf !== undefined) for (const part of allOf) this.#collect(part, value, applying);
    if (anyOf !== undefined) this.#collectMatching(anyOf, value, applying);
    if (oneOf !== undefined) this.#collectMatching(oneOf, value, applying);
    const branch = condition && (then ?? otherwise) && (this.#matches(condition, value) ? then : otherwise);
    if (branch !== undefined) this.#collect(branch, value, applying);
    if (dependentSchemas !== undefined)
      for (const [name, part] of Object.entries(dependentSchemas))
        if (Object.hasOwn(value as object, name)) this.#collect(part, value, applying);
  }

  #collectMatching(alternatives: readonly Schema[], value: unknown, applying: Schema[]): void {
    for (const part of alternatives) if (this.#matches(part, value)) this.#collect(part, value, applying);
  }

  #readNumber(applying: readonly Schema[], value: unknown, path: Path | undefined): unknown {
    const isOf = (form: NumberForm) => applying.some(({ number }) => number === form);
    if (isOf('int64') && (typeof value === 'bigint' || Number.isInteger(value)))
      return BigInt(value as number | bigint);
    if (isOf('integer')) return value;
    if (!isOf('double')) this.#checkUnknown(value, path, 0);
    else if (typeof value === 'bigint' || typeof value === 'symbol') return toDouble(value) ?? value;
    return value;
  }

  /** Fills in absent properties, unless another schema of the same property does not allow the default. */
  #fillIn(applying: readonly Schema[], object: Record<string, unknown>): void {
    for (const schema of applying)
      for (const [name, value] of defaultsOf(schema)) {
        if (Object.hasOwn(object, name) || this.#defaults > maxDefaults) continue;
        const schemas = propertySchemas(applying, name);
        if (schemas.some((one) => propertyShape(one).accepts?.(value) === false)) continue;
        if (++this.#defaults > maxDefaults)
          this.#refuse(undefined, 'default', 'has too many defaults to fill in: send fewer values at a time');
        else setOwn(object, name, this.read(schemas, structuredClone(value)));
      }
  }

  /** Checks a value about which the contract says nothing: what cannot be kept exactly is a fault. */
  #checkUnknown(value: unknown, path: Path | undefined, depth: number): void {
    if (value instanceof UploadedFile || ArrayBuffer.isView(value)) return;
    if (typeof value === 'object' && value !== null) {
      if (depth === unknownDepth)
        this.#refuse(path, 'type', `is nested more than ${unknownDepth} levels deep`);
      else
        for (const [name, part] of Object.entries(value))
          this.#checkUnknown(part, { outer: path, step: name }, depth + 1);
    } else if (typeof value === 'symbol' || (typeof value === 'number' && !Number.isFinite(value))) {
      const tooExact = 'is a number with more digits than the server keeps: send it as a string';
      this.#refuse(path, 'type', unreadable(value) ?? tooExact);
    } else if (typeof value === 'string' && !value.isWellFormed()) {
      this.#refuse(path, 'format', 'must not contain unpaired surrogates');
    }
  }

  #refuse(path: Path | undefined, rule: string, message: string): void {
    if (this.faults.length > listedFaults) return;
    const steps: (string | number)[] = [];
    for (let at = path; at !== undefined; at = at.outer) steps.unshift(at.step);
    const pointer = pointerOf(steps);
    this.faults.push({ path: pointer, place: placeOf(pointer), rule, message });
  }
}

const defaults = new WeakMap<Schema, readonly [string, unknown][]>();

/** The properties of a schema that have defaults, with them. */
function defaultsOf(schema: Schema): readonly [string, unknown][] {
  let known = defaults.get(schema);
  if (known === undefined) {
    known = Object.entries(schema.properties ?? {}).flatMap(([name, property]): [string, unknown][] => {
      const value = propertyShape(property).default;
      return value === undefined ? [] : [[name, value]];
    });
    defaults.set(schema, known);
  }
  return known;
}

/** Whether a schema of an object says what one of its properties is. */
function isDescribed(applying: readonly Schema[], name: string): boolean {
  for (const { properties } of applying)
    if (properties !== undefined && Object.hasOwn(properties, name) && !isAnything(properties[name]!))
      return true;
  return false;
}

/** The schemas of a property, from those of its object. */
function propertySchemas(applying: readonly Schema[], name: string): Schema[] {
  const found: Schema[] = [];
  for (const { properties, patternProperties, additionalProperties } of applying) {
    const before = found.length;
    if (properties !== undefined && Object.hasOwn(properties, name)) found.push(properties[name]!);
    if (patternProperties !== undefined)
      for (const [pattern, part] of Object.entries(patternProperties))
        if (patternOf(pattern).test(name)) found.push(part);
    if (found.length === before && additionalProperties !== undefined) found.push(additionalProperties);
  }
  return describing(found, applying, 'unevaluatedProperties');
}

/** The schemas of an item, from those of its array. */
function itemSchemas(applying: readonly Schema[], index: number): Schema[] {
  const found: Schema[] = [];
  for (const { prefixItems = [], items } of applying) {
    const schema = prefixItems[index] ?? items;
    if (schema !== undefined) found.push(schema);
  }
  return describing(found, applying, 'unevaluatedItems');
}

/** Those that say something; if there are none, what is said about the rest. */
function describing(
  found: readonly Schema[],
  applying: readonly Schema[],
  keyword: 'unevaluatedItems' | 'unevaluatedProperties',
): Schema[] {
  const all = found.length > 0 ? found : applying.flatMap((schema) => schema[keyword] ?? []);
  return all.filter((schema) => !isAnything(schema));
}
