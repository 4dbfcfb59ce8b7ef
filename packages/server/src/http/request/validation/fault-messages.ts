// Describes the faults of a request or a response, for the person who can correct them.
import type { ErrorObject } from 'ajv';
import { listedFaults, type RequestFault } from '../../../base/errors.js';
import { pointerOf } from '../../../contract/document/finding.js';
import { repeated, unreadable } from '../texts.js';

/** The source of a value: JSON has types, the other parts of a request have only text. */
export type ValueSource = 'json' | 'text';

/**
 * The maximum number of faults that a message describes; it only counts the others, since a long body can have very
 * many.
 */
const describedFaults = 10;
/** Maximum length of a client's unknown name in a message, in characters. */
const repeatedNameLength = 64;

/** A fault: a value that is wrong, is missing, or should not be there. */
export type Fault = Omit<RequestFault, 'in'>;

/** Describes faults in one line: `id is missing; "nmae" is unknown`. */
export function textOf(faults: readonly Fault[]): string {
  const texts = faults.slice(0, describedFaults).map(({ path, rule, message }) => {
    const steps = placeOf(path);
    const name = steps.pop();
    // Nobody knows the name, so it is quoted.
    const last =
      name === undefined ? [] : [/^(additional|unevaluated)P/.test(rule) ? JSON.stringify(name) : name];
    return `${[...steps, ...last].join('.') || 'it'} ${message}`;
  });
  const more = Math.min(faults.length, listedFaults) - describedFaults;
  const count = faults.length > listedFaults ? `at least ${more}` : more;
  return [...texts, ...(more > 0 ? [`and ${count} more faults`] : [])].join('; ');
}

/**
 * The fault of a value.
 * @param path - A JSON Pointer.
 * @param fault - The fault, unless the value stands for a text that could not be read.
 */
export function faultAt(
  path: string,
  data: unknown,
  { rule, message, expected }: Omit<Fault, 'path'>,
): Fault {
  const refusal = unreadable(data);
  if (refusal !== undefined) return { path, rule: data === repeated ? 'repeated' : 'type', message: refusal };
  return { path, rule, ...(expected !== undefined && { expected }), message };
}

/** The parameters of errors of Ajv. */
interface ErrorParams {
  readonly additionalProperty?: string;
  readonly type?: string | readonly string[];
  readonly pattern?: string;
  readonly format?: string;
  readonly allowedValues?: readonly unknown[];
  /** The limit, if there are too few or too many. */
  readonly limit?: number;
}

/** The keywords that count something, with the names of one and of several. */
const counted: Readonly<Record<string, readonly [rule: string, one: string, several: string]>> = {
  minLength: ['minLength', 'character', 'characters'],
  maxLength: ['maxLength', 'character', 'characters'],
  minItems: ['minItems', 'item', 'items'],
  maxItems: ['maxItems', 'item', 'items'],
  // Ajv's name for items of a list that has prefixItems.
  additionalItems: ['items', 'item', 'items'],
  minProperties: ['minProperties', 'property', 'properties'],
  maxProperties: ['maxProperties', 'property', 'properties'],
};

/** The pattern by which contracts exclude U+0000: few people could tell from its text what is wrong. */
const withoutNull = /^\^\[\^\\(x00|u0000)\]\*\$$/;

/** Describes an error of one of Ajv's own keywords. */
export function faultOf(error: ErrorObject, source: ValueSource): Fault {
  const { instancePath: path, keyword, message = 'is not valid', data } = error;
  const { additionalProperty, limit, type, pattern, format, allowedValues }: ErrorParams = error.params;
  if (additionalProperty !== undefined)
    return { path: path + pointerOf([additionalProperty]), rule: keyword, message: 'is unknown' };
  if (keyword === 'false schema') return { path, rule: keyword, message: 'is not allowed' };
  const [rule, single, several] = counted[keyword] ?? [keyword];
  const text =
    type !== undefined
      ? typeMessage([type].flat(), data, source)
      : limit !== undefined
        ? `must have at ${keyword.startsWith('min') ? 'least' : 'most'} ${limit} ${limit === 1 ? single : several}`
        : allowedValues !== undefined
          ? `must be one of ${allowedValues.map(shown).join(', ')}`
          : pattern !== undefined && withoutNull.test(pattern)
            ? 'must not contain the null character, U+0000'
            : message;
  return faultAt(path, data, {
    rule,
    message: text,
    expected: type ?? limit ?? pattern ?? format ?? allowedValues,
  });
}

const typeNames: Readonly<Record<string, string>> = {
  object: 'an object',
  array: 'an array',
  string: 'a string',
  boolean: 'true or false',
  integer: 'an integer',
  number: 'a number',
};

/** The message about a value that is of none of these types. */
export function typeMessage(types: readonly string[], data: unknown, source: ValueSource): string {
  // No text stands for null.
  const names = types.filter((name) => source === 'json' || name !== 'null');
  return `must be ${names.map((name) => typeNames[name] ?? name).join(' or ')}${insteadOf(data, source)}`;
}

/** The end of a message about a value of the wrong type: the type that it has. Empty for a text. */
export function insteadOf(data: unknown, source: ValueSource): string {
  if (source === 'text') return '';
  if (data === null || typeof data === 'boolean') return `, not ${String(data)}`;
  if (Array.isArray(data)) return ', not an array';
  return `, not ${{ object: 'an object', string: 'a string' }[typeof data as string] ?? 'a number'}`;
}

/** A value that the contract names, as messages show it. */
export function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The steps of a JSON Pointer (RFC 6901 section 4) as messages show them: they may be a client's unknown names. */
function placeOf(pointer: string): string[] {
  if (pointer === '') return [];
  const steps = pointer.slice(1).split('/');
  return steps.map((step) => shorten(step.replaceAll('~1', '/').replaceAll('~0', '~')));
}

function shorten(name: string): string {
  const short = name.length > repeatedNameLength ? `${name.slice(0, repeatedNameLength)}…` : name;
  return short.toWellFormed();
}
