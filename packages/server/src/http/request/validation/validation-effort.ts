// Bounds the time that validation takes, where one value can cause many checks or many faults.
import {
  combiningKeywords,
  isNothing,
  nothing,
  partsOf,
  type Schema,
} from '../../../contract/schema/schema.js';
import { isRecursive } from '../../../contract/schema/schema-walk.js';
import { unknownDepth } from '../../../contract/schema/shape.js';
import { ApiError } from '../../../base/errors.js';

/** The maximum number of checks in one body, of about a microsecond each before V8 has optimized them. */
const maxChecks = 30_000;
/** A text of this length counts as another value, since it takes time to match. */
const textLength = 64;
/** The keywords whose schemas apply to each item or name. */
const ofEach = ['contains', 'propertyNames', 'unevaluatedItems', 'unevaluatedProperties'] as const;
/** What is cheap for one value, in checks, and so need not be counted for each item of a plain array. */
const cheap = 2;

/** What it takes to check a value against a schema, in checks; what is in the value counts in addition. */
export interface Weight {
  /** The schemas that apply to the value, and its alternatives, properties and defaults. */
  readonly own: number;
  /** For each `textLength` of a text: the schemas that apply to it. */
  readonly text: number;
  /** For each item or name, and for each `textLength` of a name: the schemas that apply beside its own. */
  readonly each: number;
  /** The names whose absence is a fault. */
  readonly required: readonly string[];
}

/**
 * Weighs a schema, without the schemas of the items and properties inside its values.
 * @param allErrors - Whether validation goes on after the first fault.
 */
export function weigh(schema: Schema, allErrors: boolean): Weight {
  const { properties = {}, patternProperties = {}, dependentRequired = {} } = schema;
  const schemas = partsOf(schema, combiningKeywords).length;
  return {
    own:
      schemas +
      Object.keys(properties).length / 16 +
      sum((schema.enum ?? []).map((value) => (typeof value === 'object' ? 1 / 4 : 1 / 64))) +
      sum(Object.values(dependentRequired).map((names) => 2 * names.length)) +
      sum(Object.values(schema.shape.properties).map((shape) => weighDefault(shape.default))),
    text: schemas,
    each:
      partsOf(schema, ofEach).length +
      // Items that are texts are compared quickly.
      (schema.uniqueItems && schema.items?.type?.join() !== 'string' ? 1 : 0) +
      Object.keys(patternProperties).length,
    required: (allErrors && schema.required) || [],
  };
}

function weighDefault(value: unknown): number {
  if (value === undefined) return 0;
  return typeof value === 'object' ? JSON.stringify(value).length / 8 : 1 / 2;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

/** Whether the checks of a schema must be counted: values that are within all other limits could cause very many. */
export function isCostly(root: Schema): boolean {
  if (isRecursive(root)) return true;
  // Schemas of single values, and of the items of arrays and maps.
  const [single, repeated] = [new Set([root]), new Set<Schema>()];
  const isFound = (schema: Schema, isRepeated: boolean) => {
    if (isNothing(schema)) return false;
    const { own, text, each, required } = weigh(schema, true);
    if (text > 0 || each > 0 || (isRepeated && own + 2 * required.length > cheap)) return true;
    const { items, additionalProperties = nothing } = schema;
    const repeats = isRepeated || items !== undefined || !isNothing(additionalProperties);
    for (const part of partsOf(schema)) (repeats ? repeated : single).add(part);
    return false;
  };
  for (const schema of single) if (isFound(schema, false)) return true;
  for (const schema of repeated) if (isFound(schema, true)) return true;
  return false;
}

/** The checks of the validation that is running, which runs to its end before another one starts, if they are counted. */
let checks = -Infinity;
const tooCostly = new Error('it takes too long to check: send fewer values at a time');

/** Runs a validation whose checks are counted. @returns A description of the fault that there are too many. */
export function counting(validate: (data: unknown) => unknown, data: unknown): boolean | string {
  checks = 0;
  try {
    return validate(data) === true;
  } catch (error) {
    if (error === tooCostly) return tooCostly.message;
    throw error;
  } finally {
    checks = -Infinity;
  }
}

function add(more: number): void {
  checks += more;
  if (checks > maxChecks) throw tooCostly;
}

/** Counts a value and what is directly in it, by the weight of the schema. */
export function count(weight: Weight, data: unknown): true {
  add(weight.own + (typeof data === 'string' ? weight.text * sizeOfText(data) : sizeOf(data, weight)));
  return true;
}

/** Counts a text that is read once more, whose characters, and its end, are looked at so many times. */
export function countText({ length }: string, times = 1): void {
  add((times * (length + 1)) / textLength);
}

function sizeOf(data: unknown, { each, required }: Weight): number {
  if (typeof data !== 'object' || data === null) return 1;
  let size = 1;
  for (const value of Object.values(data)) size += typeof value === 'string' ? 1 + sizeOfText(value) : 1;
  if (Array.isArray(data)) return size + each * data.length;
  if (each > 0) for (const name of Object.keys(data)) size += each * (1 + sizeOfText(name));
  // A fault takes longer than a check.
  for (const name of required) if (!Object.hasOwn(data, name)) size += 2;
  return size;
}

function sizeOfText({ length }: string): number {
  return length / textLength;
}

/** @throws ApiError when a value is nested deeper than a validator can follow a schema that contains itself. */
export function limitDepth(data: unknown, left = unknownDepth): void {
  if (typeof data !== 'object' || data === null || ArrayBuffer.isView(data)) return;
  if (left === 0) {
    throw new ApiError('invalidBody', { detail: `it is nested more than ${unknownDepth} levels deep` });
  }
  for (const value of Object.values(data)) limitDepth(value, left - 1);
}
