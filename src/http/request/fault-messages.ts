// Describes what is wrong with a request, for the person who sent it.
import type { ErrorObject } from 'ajv';

/** The source of a value: JSON has types, the other parts of a request have only text. */
export type ValueSource = 'json' | 'text';

/** How many faults a message describes; it only counts the others, since a long body can have very many. */
const describedFaults = 10;
/** Maximum length of a client's unknown name in a message, in characters. */
const repeatedNameLength = 64;

/** A number in decimal digits, as in JSON. */
export const decimalNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Keywords whose faults other ones describe, and the alternatives that are not tried. */
const summaries = ['if', 'propertyNames', 'false schema'];

/**
 * Describes all faults in one line: `id is missing; "nmae" is unknown`.
 * @param explain - Returns what an error of the keyword `numeric` stands for.
 */
export function describe(
  errors: readonly ErrorObject[],
  source: ValueSource,
  explain: (error: ErrorObject) => Partial<ErrorObject>[],
): string {
  const described = errors.filter(({ keyword }) => !summaries.includes(keyword));
  const first = described
    .slice(0, describedFaults)
    .flatMap((error) =>
      error.keyword === 'numeric'
        ? explain(error).map((fault) => ({ ...error, params: {}, ...fault }))
        : [error],
    );
  const faults = [...new Set(first.map((error) => describeFault(error, source)))];
  if (described.length > describedFaults)
    faults.push(`and ${described.length - describedFaults} more faults`);
  return faults.join('; ');
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
}

function describeFault(
  { instancePath, keyword, params, message = 'is not valid', data, propertyName }: ErrorObject,
  source: ValueSource,
): string {
  const { missingProperty, additionalProperty, unevaluatedProperty, allowedValues, passingSchemas, type } =
    (params as FaultParams | undefined) ?? {};
  const unknown = additionalProperty ?? unevaluatedProperty;
  const steps = instancePath.slice(1).split('/').map(unescape);
  const inside = (name: string) => (steps[0] === '' ? name : `${steps.join('.')}.${name}`);
  const place = propertyName === undefined ? steps.join('.') : `the name ${inside(quote(propertyName))}`;
  if (keyword === 'required') return `${inside(missingProperty ?? '')} is missing`;
  if (unknown !== undefined) return `${inside(quote(unknown))} is unknown`;
  if (keyword === 'anyOf' || (keyword === 'oneOf' && passingSchemas === null))
    return `${place === '' ? 'it' : place} must match one of the alternatives`;
  let fault = allowedValues === undefined ? message : `must be one of ${allowedValues.join(', ')}`;
  if (type !== undefined) {
    const wanted = [type].flat().map((name) => typeNames[name] ?? name);
    const given = Array.isArray(data) ? ', given once' : '';
    fault = `must be ${wanted.join(' or ')}${source === 'text' ? given : `, not ${kindOf(data)}`}`;
  }
  return `${place === '' ? 'it' : place} ${fault}`;
}

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
