// Describes what is wrong with a request or a response, for the person who can correct it.
import type { ErrorObject } from 'ajv';
import { pointerOf } from '../../../contract/document/finding.js';
import { listedFaults, type RequestFault } from '../../../base/errors.js';
import { isInexact } from '../../../contract/document/exact-json.js';
import { repeated } from '../texts.js';
import { kindOf, numericFaults, type ValueSource } from './numeric-keyword.js';

/** How many faults a message describes; it only counts the others, since a long body can have very many. */
const describedFaults = 10;
/** Maximum length of a client's unknown name in a message, in characters. */
const repeatedNameLength = 64;

/** Keywords whose faults other ones describe, and the alternatives that are not tried. */
const summaries = ['if', 'propertyNames', 'false schema'];

/** The keywords of the contract for which others stand. */
const rules: Readonly<Record<string, string>> = {
  distinct: 'uniqueItems',
  refused: 'readOnly',
  wellFormed: 'format',
};

/** What is wrong with a value, or is missing from it, or should not be in it. */
type Fault = Omit<RequestFault, 'in'>;

/** All that is wrong with a value: in one line, `id is missing; "nmae" is unknown`, and one by one, at most 100. */
export interface Faults {
  readonly text: string;
  readonly list: readonly Fault[];
}

/** Describes all faults. */
export function describeFaults(errors: readonly ErrorObject[], source: ValueSource): Faults {
  const described = errors.map(innermost).filter(({ keyword }) => !summaries.includes(keyword));
  const describedTo = (count: number) =>
    described
      .slice(0, count)
      .flatMap((error) =>
        error.keyword === 'numeric'
          ? numericFaults(error).map((fault) => ({ ...error, params: {}, ...fault }))
          : [error],
      )
      .map((error) => describeFault(error, source));
  const texts = describedTo(describedFaults).map(({ place, message }) => `${place || 'it'} ${message}`);
  if (described.length > describedFaults) texts.push(`and ${described.length - describedFaults} more faults`);
  return {
    text: [...new Set(texts)].join('; '),
    get list() {
      return describedTo(listedFaults).map(({ place: _, ...fault }) => fault);
    },
  };
}

/** The error that an error of the keyword `refer` stands for. */
export function innermost(error: ErrorObject): ErrorObject {
  const { error: inner } = error.params as { error?: ErrorObject };
  return inner ?? error;
}

/** What an Error of Ajv says about its keyword; of custom keywords, nothing. */
interface FaultParams {
  readonly missingProperty?: string;
  readonly additionalProperty?: string;
  readonly unevaluatedProperty?: string;
  /** Which alternatives match, if too many do. */
  readonly passingSchemas?: readonly number[] | null;
  readonly allowedValues?: readonly unknown[];
  readonly type?: string | readonly string[];
  readonly pattern?: string;
  readonly format?: string;
  readonly multipleOf?: number;
  readonly expected?: unknown;
  /** How many there may be, if there are too few or too many. */
  readonly limit?: number;
}

function describeFault(error: ErrorObject, source: ValueSource): Fault & { readonly place: string } {
  const { instancePath, keyword, propertyName } = error;
  const { missingProperty, additionalProperty, unevaluatedProperty }: FaultParams = error.params;
  const unknown = additionalProperty ?? unevaluatedProperty ?? propertyName;
  const name = missingProperty ?? unknown;
  const last = keyword === 'required' ? missingProperty : unknown && quote(unknown);
  const steps = [...instancePath.slice(1).split('/').map(unescape), last ?? ''];
  const place = steps.filter((step) => step !== '').join('.');
  return {
    place: propertyName === undefined ? place : `the name ${place}`,
    path: instancePath + pointerOf(name === undefined ? [] : [name]),
    ...(isUnreadable(error.data)
      ? { rule: error.data === repeated ? 'repeated' : 'type', message: error.data.description! }
      : { rule: rules[keyword] ?? keyword, ...expectedBy(error), message: messageOf(error, source) }),
  };
}

/** Whether a value stands for a text that could not be read; other symbols are numbers. */
function isUnreadable(data: unknown): data is symbol {
  return isInexact(data) && data.description!.startsWith('is ');
}

/** The value of the keyword, unless it describes places of its own. */
function expectedBy({ params }: ErrorObject): Pick<Fault, 'expected'> {
  const { allowedValues, limit, type, pattern, format, multipleOf, expected }: FaultParams = params;
  const value = expected ?? allowedValues ?? limit ?? type ?? pattern ?? format ?? multipleOf;
  return value === undefined ? {} : { expected: value };
}

function messageOf(
  { keyword, params, message = 'is not valid', data }: ErrorObject,
  source: ValueSource,
): string {
  const { additionalProperty, unevaluatedProperty, allowedValues, passingSchemas, type, limit }: FaultParams =
    params;
  if (keyword === 'required') return 'is missing';
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

/** A value that the contract names, as messages show it. */
function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The keywords that count something, and what. */
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
};

/** The end of the message about what looks like true or false, but is not one of them. */
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
