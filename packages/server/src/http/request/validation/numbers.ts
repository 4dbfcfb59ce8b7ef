// Checks numbers exactly: Ajv does not accept a bigint as an integer, and accepts a rounded number.
import { integerRanges, isInexact, toDouble } from '../../../contract/document/exact-json.js';
import { isBig, typeOf } from '../../../contract/schema/json-types.js';
import { numericKeywords, type Schema } from '../../../contract/schema/schema.js';
import { insteadOf, typeMessage } from './fault-messages.js';
import type { Verdict } from './verdict.js';

/** A limit of a number; bigint and number compare exactly. */
interface Limit {
  readonly rule: string;
  readonly expected: unknown;
  readonly message: string;
  readonly holds: (value: number | bigint) => boolean;
}

/** Whether numbers are checked by our keyword, which then checks all types. */
export function isNumeric({ type, binary, ...schema }: Schema): boolean {
  const isSaid =
    type?.some((name) => name === 'integer' || name === 'number') ??
    numericKeywords.some((keyword) => schema[keyword] !== undefined);
  return isSaid && binary !== true;
}

/** Creates the check of the type of a value, and if it is a number, of its limits. */
export function createNumericCheck(schema: Schema) {
  const { type } = schema;
  const isInteger = type !== undefined && !type.includes('number');
  const name = isInteger ? rangeOf(schema) : 'a number';
  const hint = isInteger ? ', in canonical decimal digits' : ', in decimal digits';
  const limits = limitsOf(schema, isInteger ? `must be ${name}` : undefined);
  /** The value that is compared; undefined if it is not of the type. */
  const read = (data: unknown): number | bigint | undefined => {
    if (isInexact(data)) return isInteger ? undefined : toDouble(data);
    if (typeof data === 'bigint') return data;
    return (isInteger ? Number.isSafeInteger(data) : Number.isFinite(data)) ? (data as number) : undefined;
  };
  return function (this: Verdict, data: unknown, path: string): void {
    const isNumber = typeof data === 'number' || typeof data === 'bigint' || isInexact(data);
    if (!isNumber && (type?.includes(typeOf(data)) ?? true)) return;
    const value = isNumber ? read(data) : undefined;
    const { source } = this.validation;
    const isText = source === 'text';
    if (value === undefined) {
      const ofNumber = `must be ${name}${isText ? hint : isNumber ? '' : insteadOf(data, 'json')}`;
      const isSeveral = type !== undefined && type.filter((other) => other !== 'null').length > 1;
      const message = isSeveral && !isNumber ? typeMessage(type, data, source) : ofNumber;
      this.refuse(path, data, 'type', message, type);
      return;
    }
    for (const { rule, expected, message, holds } of limits)
      if (!holds(value))
        this.refuse(path, data, rule, message + (isText && message.endsWith(name) ? hint : ''), expected);
  };
}

/** Names the integers of a schema; its limits are integers where they are in the range of doubles. */
function rangeOf({ number, minimum, maximum }: Schema): string {
  const { min, max } = integerRanges[isBig(number) ? number : 'double'];
  const from = minimum !== undefined && minimum > min ? minimum : min;
  const to = maximum !== undefined && maximum < max ? maximum : max;
  return `an integer from ${from} to ${to}`;
}

const comparisons = [
  ['minimum', '>=', (value: number | bigint, bound: number | bigint) => value >= bound],
  ['maximum', '<=', (value: number | bigint, bound: number | bigint) => value <= bound],
  ['exclusiveMinimum', '>', (value: number | bigint, bound: number | bigint) => value > bound],
  ['exclusiveMaximum', '<', (value: number | bigint, bound: number | bigint) => value < bound],
] as const;

/** @param ofRange - The message about an integer that is outside of its range. */
function limitsOf(schema: Schema, ofRange: string | undefined): Limit[] {
  const { min, max } = integerRanges[isBig(schema.number) ? schema.number : 'double'];
  const range = ofRange === undefined ? {} : { minimum: min, maximum: max };
  const limits = [range, schema].flatMap(
    (bounds: { readonly [Rule in (typeof comparisons)[number][0]]?: number | bigint }) =>
      comparisons.flatMap(([rule, sign, compare]): Limit[] => {
        const bound = bounds[rule];
        if (bound === undefined) return [];
        const message = rule.startsWith('m') ? ofRange : undefined;
        const expected = Number(bound);
        // Comparing a number with a bigint takes long; no safe integer is on the other side of the rounded bound.
        const holds = (value: number | bigint) =>
          compare(value, Number.isSafeInteger(value) ? expected : bound);
        return [{ rule, expected, message: message ?? `must be ${sign} ${bound}`, holds }];
      }),
  );
  const { multipleOf: factor } = schema;
  if (factor === undefined) return limits;
  const message = `must be multiple of ${factor}`;
  const holds = (value: number | bigint) => isMultiple(value, factor);
  return [...limits, { rule: 'multipleOf', expected: factor, message, holds }];
}

/** Whether a number is a multiple of another, as far as doubles tell: 0.3 is one of 0.1. */
function isMultiple(value: number | bigint, factor: number): boolean {
  if (Number.isSafeInteger(factor))
    return typeof value === 'bigint' ? value % BigInt(factor) === 0n : value % factor === 0;
  return Number.isInteger(Number((Number(value) / factor).toPrecision(15)));
}
