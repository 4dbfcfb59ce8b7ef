// Describes what is wrong with a request or a response, for the person who can correct it.
import type { ErrorObject } from 'ajv';
import { pointerOf } from '../../../contract/document/finding.js';
import type { RequestFault } from '../../../base/errors.js';

/** The source of a value: JSON has types, the other parts of a request have only text. */
export type ValueSource = 'json' | 'text';

/** How many faults a message describes; it only counts the others, since a long body can have very many. */
const describedFaults = 10;
/** How many faults are listed. */
const listedFaults = 100;
/** Maximum length of a client's unknown name in a message, in characters. */
const repeatedNameLength = 64;

/** A number in decimal digits, as in JSON. */
export const decimalNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Keywords whose faults other ones describe, and the alternatives that are not tried. */
const summaries = ['if', 'propertyNames', 'false schema'];

/** The keywords of the contract for which others stand. */
const rules: Readonly<Record<string, string>> = {
  distinct: 'uniqueItems',
  refused: 'readOnly',
  wellFormed: 'format',
};

/** How messages name places, which Ajv gives as JSON Pointers. */
export interface Places {
  /** The place itself; empty for the whole value. */
  readonly at: (pointer: string) => string;
  /** A property inside a place. */
  readonly inside: (pointer: string, name: string) => string;
  /** A name that no schema has. */
  readonly unknown: (name: string) => string;
}

/** Names as in code, for those who send requests: `items.0.id`. */
const dots: Places = {
  at: (pointer) => pointer.slice(1).split('/').map(unescape).join('.'),
  inside: (pointer, name) => [dots.at(pointer), name].filter((step) => step !== '').join('.'),
  unknown: quote,
};

/** JSON Pointers (RFC 6901), for those who write a service: `/items/0/id`. */
export const pointers: Places = {
  at: (pointer) => pointer.split('/').map(shorten).join('/'),
  inside: (pointer, name) => pointers.at(pointer + pointerOf([name])),
  unknown: (name) => name,
};

/** What is wrong with a value; its place is also that of what is missing, or should not be there. */
type Fault = Omit<RequestFault, 'in'>;

/** All that is wrong with a value: in one line, `id is missing; "nmae" is unknown`, and one by one, at most 100. */
export interface Faults {
  readonly text: string;
  readonly list: readonly Fault[];
}

/**
 * Describes all faults.
 * @param explain - Returns what an error of the keyword `numeric` stands for.
 */
export function describe(
  errors: readonly ErrorObject[],
  source: ValueSource,
  explain: (error: ErrorObject) => Partial<ErrorObject>[],
  places = dots,
): Faults {
  const described = errors.map(innermost).filter(({ keyword }) => !summaries.includes(keyword));
  const describedTo = (count: number) =>
    described
      .slice(0, count)
      .flatMap((error) =>
        error.keyword === 'numeric'
          ? explain(error).map((fault) => ({ ...error, params: {}, ...fault }))
          : [error],
      )
      .map((error) => describeFault(error, source, places));
  const texts = describedTo(describedFaults).map(({ place, message }) => `${place || 'it'} ${message}`);
  if (described.length > describedFaults) texts.push(`and ${described.length - describedFaults} more faults`);
  return {
    text: [...new Set(texts)].join('; '),
    get list() {
      return describedTo(listedFaults).map(({ path, rule, message }) => ({ path, rule, message }));
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
  /** How many there may be, if there are too few or too many. */
  readonly limit?: number;
}

function describeFault(
  { instancePath, keyword, params, message = 'is not valid', data, propertyName }: ErrorObject,
  source: ValueSource,
  places: Places,
): Fault & { readonly place: string } {
  const {
    missingProperty,
    additionalProperty,
    unevaluatedProperty,
    allowedValues,
    passingSchemas,
    type,
    limit,
  } = (params as FaultParams | undefined) ?? {};
  const unknown = additionalProperty ?? unevaluatedProperty;
  const named = missingProperty ?? unknown ?? propertyName;
  const path = instancePath + pointerOf(named === undefined ? [] : [named]);
  const inside = (name: string) => places.inside(instancePath, name);
  const rule = rules[keyword] ?? keyword;
  const found = (place: string, message: string) => ({ place, path, rule, message });
  const place =
    propertyName === undefined ? places.at(instancePath) : `the name ${inside(places.unknown(propertyName))}`;
  if (keyword === 'required') return found(inside(missingProperty ?? ''), 'is missing');
  if (unknown !== undefined) return found(inside(places.unknown(unknown)), 'is unknown');
  if (keyword === 'anyOf' || (keyword === 'oneOf' && passingSchemas === null))
    return found(place, 'must match one of the alternatives');
  if (keyword === 'oneOf')
    return found(
      place,
      `matches the alternatives ${passingSchemas?.map((i) => i + 1).join(' and ')}, and must match only one`,
    );
  let fault = allowedValues === undefined ? message : `must be one of ${allowedValues.map(shown).join(', ')}`;
  const counted = countedBy[keyword];
  if (counted !== undefined && limit !== undefined) {
    const [bound, one, several] = counted;
    fault = `must have ${bound} ${limit} ${limit === 1 ? one : several}`;
  }
  if (type !== undefined) {
    const isText = source === 'text';
    // No text stands for null.
    const types = [type].flat().filter((name) => !isText || name !== 'null');
    const given = isText ? (Array.isArray(data) ? ', given once' : '') : `, not ${kindOf(data)}`;
    const hint = types.includes('boolean') ? notBoolean(data, source) : '';
    fault = `must be ${types.map((name) => typeNames[name] ?? name).join(' or ')}${given}${hint}`;
  }
  return found(place, fault);
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

/** What a body has in place of a value of the right type. */
function kindOf(data: unknown): string {
  if (data === null || typeof data === 'boolean') return String(data);
  if (Array.isArray(data)) return 'an array';
  return { object: 'an object', string: 'a string' }[typeof data as string] ?? 'a number';
}

/**
 * The end of the message about what is not a number, or is one of the wrong kind or size: what came instead, or the
 * required notation. A quoted number is called one only if its digits would be accepted without the quotes.
 * @param hint - The required notation in a text.
 * @param accepts - Whether a text without quotes would be accepted.
 */
export function notNumber(
  data: unknown,
  source: ValueSource,
  hint: string,
  accepts: (digits: string) => boolean,
): string {
  if (source === 'text' && Array.isArray(data)) return ', given once';
  const kind = kindOf(data);
  const instead = source === 'text' ? hint : kind === 'a number' ? '' : `, not ${kind}`;
  const digits = source === 'text' ? /^"([^"]*)"$/.exec(String(data))?.[1] : data;
  const isQuoted = typeof digits === 'string' && accepts(digits);
  return `${instead}${isQuoted ? ': send the digits without quotes' : ''}`;
}

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
function quote(name: string): string {
  return JSON.stringify(shorten(name));
}

function shorten(name: string): string {
  const short = name.length > repeatedNameLength ? `${name.slice(0, repeatedNameLength)}…` : name;
  return short.toWellFormed();
}
