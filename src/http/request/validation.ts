// Validates requests with Ajv against the contract's schemas, with exact 64-bit integers and readable messages.
import { Ajv, type AnySchemaObject, type ErrorObject, type FuncKeywordDefinition } from 'ajv';
import addFormats from 'ajv-formats';
import type { FastifySchemaCompiler } from 'fastify';
import type { Schema } from '../../contract/contract.js';
import { ApiError, catalogue, type ErrorEntry, type ErrorKind } from '../../errors.js';
import { integerRanges, isInexact, parseDecimal, toDouble } from '../../contract/exact-json.js';

/** How many faults a message describes; it only counts the others, since a long body can have very many. */
const describedFaults = 10;
/** Maximum length of a client's unknown name in a message, in characters. */
const repeatedNameLength = 64;

/** The source of a value: JSON has types, a path or a query has only text. */
type Source = 'json' | 'text';

/** The value of the keyword `read`: the data is converted first, then checked against `schema`. */
interface ReadRule {
  source: Source;
  schema: Schema;
}

/**
 * Creates the compiler of request schemas for Fastify's setValidatorCompiler. Bodies are checked without coercion or
 * removal; the text of paths and queries is converted to the schema's type. Integers of format int64 reach the handler
 * as bigint, all others as number. The validators return an ApiError that describes the faults.
 */
export function createValidatorCompiler(ajv: Ajv): FastifySchemaCompiler<AnySchemaObject> {
  ajv.addKeyword({
    keyword: 'read',
    modifying: true,
    errors: true,
    compile: ({ source, schema }: ReadRule) => readKeyword(ajv, source, schema),
  });
  ajv.addKeyword({
    keyword: 'wellFormed',
    type: 'string',
    error: { message: 'must not contain unpaired surrogates' },
    validate: (_: true, data: string) => data.isWellFormed(),
  });

  const kinds: Record<string, ErrorKind> = {
    body: 'invalidBody',
    querystring: 'invalidQuery',
    params: 'invalidPath',
  };
  return ({ schema, httpPart = 'body' }) => {
    const validate = ajv.compile(forRequests(schema, httpPart === 'body' ? 'json' : 'text'));
    const kind = kinds[httpPart] ?? 'invalidBody';
    return (data: unknown) => {
      if (validate(data)) return true;
      return { error: new ApiError(kind, { detail: describe(validate.errors ?? []) }) };
    };
  };
}

/**
 * Checks every entry of the error catalogue, and a service's own errors, against the contract's Error schema.
 * @throws Error naming the entry that does not match, or whose code is taken.
 */
export function checkCatalogue(
  ajv: Ajv,
  errorSchema: object,
  errors: Readonly<Record<string, ErrorEntry>>,
): void {
  const validate = ajv.compile(errorSchema);
  const codes = new Set<number>();
  for (const [name, entry] of [...Object.entries<ErrorEntry>(catalogue), ...Object.entries(errors)]) {
    if (codes.has(entry.code))
      throw new Error(`Error ${name} has a code that another error has: ${entry.code}`);
    codes.add(entry.code);
    if (!validate(JSON.parse(new ApiError(entry).json))) {
      throw new Error(`Error ${name} does not match the contract: ${describe(validate.errors ?? [])}`);
    }
  }
}

/** Creates an Ajv instance that reports all faults, coerces and removes nothing, and refuses unknown keywords. */
export function createAjv(): Ajv {
  const ajv = new Ajv({
    allErrors: true,
    // Messages say what came instead of the right type.
    verbose: true,
    coerceTypes: false,
    removeAdditional: false,
    useDefaults: false,
  });
  addFormats.default(ajv, { mode: 'full' });
  // Annotations of OpenAPI 3.0 that Ajv does not know.
  ajv.addVocabulary(['example', 'externalDocs']);
  return ajv;
}

/**
 * Rewrites a schema for requests. Numbers and text are converted by the keyword `read`, because Ajv does not accept a
 * bigint as an integer, accepts a rounded number, and does not convert text. Every string must be well-formed.
 */
function forRequests(schema: Schema, source: Source): AnySchemaObject {
  const inner = (one: unknown) => forRequests(one as Schema, source);
  const { type, properties, additionalProperties, items } = schema;
  if (type === 'object') {
    return {
      ...schema,
      ...(properties !== undefined && {
        properties: Object.fromEntries(
          Object.entries(properties as object).map(([name, property]) => [name, inner(property)]),
        ),
      }),
      ...(typeof additionalProperties === 'object' && { additionalProperties: inner(additionalProperties) }),
    };
  }
  if (type === 'array') return { ...schema, items: inner(items) };
  const string = type === 'string' ? { ...schema, wellFormed: true } : schema;
  const isRead = source === 'text' || type === 'integer' || type === 'number';
  return isRead ? { read: { source, schema: string } satisfies ReadRule } : string;
}

const decimalNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Converts a value to a type; undefined when it is not of that type. Integers become bigint. */
const readers: Record<Source, Record<string, (data: unknown) => unknown>> = {
  json: {
    integer: (data) =>
      typeof data === 'bigint' || Number.isInteger(data) ? BigInt(data as number) : undefined,
    number: (data) => (typeof data === 'bigint' || isInexact(data) ? toDouble(data) : finite(data)),
  },
  text: {
    integer: (data) => (typeof data === 'string' ? parseDecimal(data) : undefined),
    number: (data) =>
      typeof data === 'string' && decimalNumber.test(data) ? finite(Number(data)) : undefined,
    boolean: (data) => (data === 'true' ? true : data === 'false' ? false : undefined),
    string: (data) => (typeof data === 'string' ? data : undefined),
  },
};

function finite(data: unknown): number | undefined {
  return typeof data === 'number' && Number.isFinite(data) ? data : undefined;
}

/** The rule that a message states for a value that cannot be converted, by its type. */
const rules: Readonly<Record<string, string>> = {
  number: 'must be a number',
  boolean: 'must be true or false',
  string: 'must be a string',
};

/** The required notation of a parameter, for the message. */
const hints: Readonly<Record<string, string>> = {
  integer: ', in canonical decimal digits',
  number: ', in decimal digits',
};

type CompiledKeyword = ReturnType<NonNullable<FuncKeywordDefinition['compile']>>;

/** Compiles `read`: converts a value, checks it against the rest of its schema, and replaces it. */
function readKeyword(ajv: Ajv, source: Source, schema: Schema): CompiledKeyword {
  const { type = '', format, minimum, maximum, nullable } = schema;
  const read = readers[source][type];
  if (read === undefined) throw new Error(`no reader for ${type} in ${source}`);
  const range = integerRanges[format === 'int32' || format === 'int64' ? format : 'double'];
  const min = minimum === undefined ? range.min : BigInt(Math.ceil(minimum as number));
  const max = maximum === undefined ? range.max : BigInt(Math.floor(maximum as number));
  // Ajv cannot check a bigint. Its range is checked below; contract/support.ts refuses any other constraint.
  const rest = format === 'int64' ? undefined : ajv.compile(schema);
  const rule = type === 'integer' ? `must be an integer from ${min} to ${max}` : rules[type];
  const hint = hints[type] ?? '';

  const keyword: CompiledKeyword = (data: unknown, context) => {
    if (data === null && nullable === true) return true;
    const value = read(data);
    if (value === undefined || (typeof value === 'bigint' && (value < min || value > max))) {
      const textHint = Array.isArray(data) ? ', given once' : hint;
      keyword.errors = [{ message: `${rule}${source === 'text' ? textHint : notNumber(data)}` }];
      return false;
    }
    const result = typeof value === 'bigint' && rest !== undefined ? Number(value) : value;
    if (rest !== undefined && !rest(result)) {
      keyword.errors = (rest.errors ?? []).map(({ keyword, params, message = '', data }) => ({
        keyword,
        params,
        message,
        data,
      }));
      return false;
    }
    if (context !== undefined) {
      const parent = context.parentData as Record<string, unknown>;
      parent[String(context.parentDataProperty)] = result;
    }
    return true;
  };
  return keyword;
}

/** Describes all faults in one line: `id is missing; "nmae" is unknown`. */
function describe(errors: readonly ErrorObject[]): string {
  const faults = errors.slice(0, describedFaults).map(describeFault);
  if (errors.length > describedFaults) faults.push(`and ${errors.length - describedFaults} more faults`);
  return faults.join('; ');
}

/** What an Error of Ajv says about its keyword; of custom keywords, nothing. */
interface FaultParams {
  readonly missingProperty?: string;
  readonly additionalProperty?: string;
  readonly allowedValues?: readonly unknown[];
  readonly type?: string | readonly string[];
}

function describeFault({
  instancePath,
  keyword,
  params,
  message = 'is not valid',
  data,
}: ErrorObject): string {
  const { missingProperty, additionalProperty, allowedValues, type } =
    (params as FaultParams | undefined) ?? {};
  const place = instancePath.slice(1).split('/').map(unescape).join('.');
  const inside = (name: string) => (place === '' ? name : `${place}.${name}`);
  if (keyword === 'required') return `${inside(missingProperty ?? '')} is missing`;
  if (keyword === 'additionalProperties') return `${inside(quote(additionalProperty ?? ''))} is unknown`;
  let fault = allowedValues === undefined ? message : `must be one of ${allowedValues.join(', ')}`;
  if (type !== undefined) {
    const wanted = [type].flat().map((name) => typeNames[name] ?? name);
    fault = `must be ${wanted.join(' or ')}, not ${kindOf(data)}`;
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

/** What a body has in place of a number, for the end of a message; empty for a number of the wrong kind or size. */
function notNumber(data: unknown): string {
  const kind = kindOf(data);
  if (kind === 'a number') return '';
  const isQuoted = typeof data === 'string' && decimalNumber.test(data);
  return `, not ${kind}${isQuoted ? ': send the digits without quotes' : ''}`;
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
