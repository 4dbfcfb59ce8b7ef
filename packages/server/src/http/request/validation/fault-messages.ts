// Describes the faults of a request or a response, for the person who can correct them.
import type { ErrorObject } from 'ajv';
import { pointerOf } from '../../../contract/document/finding.js';
import { listedFaults, type RequestFault } from '../../../base/errors.js';
import { repeated, unreadable } from '../texts.js';
import { choiceErrors, type FindSchema } from './choice.js';
import { kindOf, numericFaults, type ValueSource } from './numeric-keyword.js';
import type { At, Verdicts } from './verdicts.js';

/**
 * The maximum number of faults that a message describes; it only counts the others, since a long body can have very
 * many.
 */
const describedFaults = 10;
/** Maximum length of a client's unknown name in a message, in characters. */
const repeatedNameLength = 64;

/** Keywords whose faults other ones describe. */
const summaries = ['if', 'propertyNames'];

/** The keywords of the contract for which others stand. */
const rules: Readonly<Record<string, string>> = {
  distinct: 'uniqueItems',
  refused: 'readOnly',
  wellFormed: 'format',
};

/** A fault: a value that is wrong, is missing, or should not be there. */
export interface Fault extends Omit<RequestFault, 'in'> {
  /** The place as messages show it: `items.0.id`. */
  readonly place: string;
}

/** The context for describing errors of Ajv. */
export interface ErrorSource {
  readonly source: ValueSource;
  /** The schemas by their names, and what they say about the values of the request. */
  readonly find: FindSchema;
  readonly verdicts: Verdicts;
}

/** Returns the faults that errors of Ajv stand for, at most one more than are listed. */
export function faultsOf(errors: readonly ErrorObject[], from: ErrorSource): Fault[] {
  const faults = new Map<string, Fault>();
  for (const error of expand(errors, from)) {
    const fault = describeFault(error, from.source);
    faults.set(`${fault.path} ${fault.message}`, fault);
    if (faults.size > listedFaults) break;
  }
  return [...faults.values()];
}

/** Describes faults in one line: `id is missing; "nmae" is unknown`. */
export function textOf(faults: readonly Fault[]): string {
  const texts = faults.slice(0, describedFaults).map(({ place, message }) => `${place || 'it'} ${message}`);
  const more = Math.min(faults.length, listedFaults) - describedFaults;
  const count = faults.length > listedFaults ? `at least ${more}` : more;
  return [...texts, ...(more > 0 ? [`and ${count} more faults`] : [])].join('; ');
}

/** Faults as a service sees them. */
export function requestFaults(faults: readonly Fault[], part: RequestFault['in']): RequestFault[] {
  return faults.slice(0, listedFaults).map(({ path, rule, message, ...others }) => ({
    ...{ in: part, path, rule, message },
    ...('expected' in others && { expected: others.expected }),
  }));
}

/** The errors of the keywords that a contract has, in place of those that stand for others. */
function* expand(errors: readonly ErrorObject[], from: ErrorSource): Generator<ErrorObject> {
  for (const error of errors) {
    const { keyword, data, instancePath } = error;
    if (summaries.includes(keyword)) continue;
    if (keyword === 'refer') {
      const at = { instancePath } as At;
      const inner = from.verdicts.errorsOf(from.find(error.schema as string), data, at) ?? [];
      // Ajv names the property whose name is wrong only here.
      const { propertyName } = error;
      yield* expand(
        propertyName === undefined ? inner : inner.map((one) => ({ ...one, propertyName })),
        from,
      );
    } else if (keyword === 'choice') {
      const inner = choiceErrors(error, from.verdicts, from.find);
      yield* expand(
        inner.map((one) => ({ ...error, ...one })),
        from,
      );
    } else if (keyword === 'needs') {
      for (const name of error.schema as readonly string[])
        if (!Object.hasOwn(data as object, name))
          yield { ...error, keyword: 'required', params: { missingProperty: name } };
    } else if (keyword === 'numeric') {
      for (const fault of numericFaults(error)) yield { ...error, params: {}, ...fault };
    } else yield error;
  }
}

/** The parameters of an error of Ajv; those of custom keywords are empty. */
interface FaultParams {
  readonly missingProperty?: string;
  readonly additionalProperty?: string;
  readonly unevaluatedProperty?: string;
  /** The alternatives that match, if too many do. */
  readonly passingSchemas?: readonly number[] | null;
  readonly allowedValues?: readonly unknown[];
  readonly type?: string | readonly string[];
  readonly pattern?: string;
  readonly format?: string;
  readonly multipleOf?: number;
  readonly expected?: unknown;
  /** The limit, if there are too few or too many. */
  readonly limit?: number;
}

function describeFault(error: ErrorObject, source: ValueSource): Fault {
  const { instancePath, keyword, propertyName } = error;
  const { missingProperty, additionalProperty, unevaluatedProperty }: FaultParams = error.params;
  const unknown = additionalProperty ?? unevaluatedProperty ?? propertyName;
  const name = missingProperty ?? unknown;
  const last = keyword === 'required' ? missingProperty : unknown && quote(unknown);
  const place = [placeOf(instancePath), last ?? ''].filter((step) => step !== '').join('.');
  const refusal = unreadable(error.data);
  return {
    place: propertyName === undefined ? place : `the name ${place}`,
    path: instancePath + pointerOf(name === undefined ? [] : [name]),
    ...(refusal !== undefined
      ? { rule: error.data === repeated ? 'repeated' : 'type', message: refusal }
      : { rule: rules[keyword] ?? keyword, ...expectedBy(error), message: messageOf(error, source) }),
  };
}

/** The value of the keyword, unless it describes places of its own. */
function expectedBy({ params }: ErrorObject): Pick<Fault, 'expected'> {
  const { allowedValues, limit, type, pattern, format, multipleOf, expected }: FaultParams = params;
  const value = expected ?? allowedValues ?? limit ?? type ?? pattern ?? format ?? multipleOf;
  return value === undefined ? {} : { expected: value };
}

function messageOf(
  { keyword, params, schema, message = 'is not valid', data }: ErrorObject,
  source: ValueSource,
): string {
  const { additionalProperty, unevaluatedProperty, allowedValues, passingSchemas, type, limit }: FaultParams =
    params;
  if (keyword === 'required') return 'is missing';
  if (keyword === 'false schema') return 'is not allowed';
  if (keyword === 'not') return notMessage(schema as Excluded);
  if ((additionalProperty ?? unevaluatedProperty) !== undefined) return 'is unknown';
  if (keyword === 'anyOf' || (keyword === 'oneOf' && passingSchemas === null))
    return 'must match one of the alternatives';
  if (keyword === 'oneOf')
    return `matches the alternatives ${passingSchemas?.map((i) => i + 1).join(' and ')}, and must match only one`;
  if (type !== undefined) {
    const isText = source === 'text';
    // No text stands for null.
    const types = [type].flat().filter((name) => !isText || name !== 'null');
    const given = isText ? '' : `, not ${kindOf(data)}`;
    const hint = types.includes('boolean') ? notBoolean(data, source) : '';
    return `must be ${types.map((name) => typeNames[name] ?? name).join(' or ')}${given}${hint}`;
  }
  const counted = countedBy[keyword];
  if (counted !== undefined && limit !== undefined) {
    const [bound, one, several] = counted;
    return `must have ${bound} ${limit} ${limit === 1 ? one : several}`;
  }
  return allowedValues === undefined ? message : `must be one of ${allowedValues.map(shown).join(', ')}`;
}

/** A schema of `not`, as Ajv gets it. */
interface Excluded {
  readonly enum?: readonly unknown[];
  readonly needs?: readonly string[];
  readonly pattern?: string;
  readonly type?: string | readonly string[];
}

/** Describes the values that are not allowed, if that is short. */
function notMessage({ enum: values, needs, pattern, type, ...others }: Excluded): string {
  const isOnly = (...keywords: readonly unknown[]) =>
    keywords.filter((one) => one !== undefined).length <= 1 && Object.keys(others).length === 0;
  if (values !== undefined) return `must not be ${values.map(shown).join(' or ')}`;
  if (needs !== undefined && isOnly(pattern))
    return `must not have ${needs.join(' and ')}${needs.length > 1 ? ' together' : ''}`;
  if (pattern !== undefined && isOnly(needs)) return `must not match pattern "${pattern}"`;
  if (type !== undefined && isOnly(needs, pattern))
    return `must not be ${[type]
      .flat()
      .map((name) => typeNames[name] ?? name)
      .join(' or ')}`;
  return 'is of a form that the contract excludes';
}

/** A value that the contract names, as messages show it. */
function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The keywords that count something, with its name. */
const countedBy: Readonly<Record<string, readonly [bound: string, one: string, several: string]>> = {
  minLength: ['at least', 'character', 'characters'],
  maxLength: ['at most', 'character', 'characters'],
  minItems: ['at least', 'item', 'items'],
  maxItems: ['at most', 'item', 'items'],
  minProperties: ['at least', 'property', 'properties'],
  maxProperties: ['at most', 'property', 'properties'],
};

const typeNames: Readonly<Record<string, string>> = {
  object: 'an object',
  array: 'an array',
  string: 'a string',
  boolean: 'true or false',
  integer: 'an integer',
  number: 'a number',
};

/** The end of the message about a value that resembles true or false, but is neither. */
function notBoolean(data: unknown, source: ValueSource): string {
  if (typeof data !== 'string') return '';
  const [, quote, word] = /^("?)(true|false)\1$/i.exec(data) ?? [];
  if (word === undefined) return '';
  const faults = [
    ...(source === 'json' || quote === '"' ? ['without quotes'] : []),
    ...(word === word.toLowerCase() ? [] : ['in lower case']),
  ];
  return `: send it ${faults.join(', ')}`;
}

/** A JSON Pointer as messages show it: `items.0.id`. */
export function placeOf(pointer: string): string {
  return pointer.slice(1).split('/').map(unescape).join('.');
}

/** Unescapes and shortens one step of a JSON Pointer (RFC 6901 section 4), which may be a client's unknown name. */
function unescape(step: string): string {
  return shorten(step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Quotes a client's unknown name, shortened and well-formed. */
export function quote(name: string): string {
  return JSON.stringify(shorten(name));
}

function shorten(name: string): string {
  const short = name.length > repeatedNameLength ? `${name.slice(0, repeatedNameLength)}…` : name;
  return short.toWellFormed();
}
