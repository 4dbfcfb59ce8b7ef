// Ajv over the contract's schemas: strict, exact for 64-bit integers, and with messages for people.
import { Ajv, type AnySchemaObject, type ErrorObject, type FuncKeywordDefinition } from 'ajv';
import addFormats from 'ajv-formats';
import type { FastifySchemaCompiler } from 'fastify';
import type { Schema } from '../../contract/contract.js';
import { ApiError, catalogue, type ErrorKind } from '../../errors.js';
import { integerRanges, isInexact, parseDecimal, toDouble } from './exact-json.js';

/** How many faults a message describes before it only counts them: a body can have as many as it has bytes. */
const describedFaults = 10;
/** How much of a name that a client made up is repeated to it. */
const repeatedNameLength = 64;

/** Where a value comes from: JSON has types, a path or a query has only text. */
type Source = 'json' | 'text';

/** The keyword `read`: a value that is read first, and then checked by the schema that it stands for. */
interface ReadRule {
  source: Source;
  schema: Schema;
}

/**
 * Compiles the schemas of requests. Bodies are checked as they are (nothing is coerced, nothing dropped); paths and
 * queries are text, read by the type that the schema names. Integers of format int64 reach the handler as bigint, all
 * others as number.
 *
 * Passed to Fastify's setValidatorCompiler. What does not fit is an ApiError naming every fault.
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
    error: { message: 'must not hold unpaired surrogates' },
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
      // Fastify gives null for "no body at all", which no schema of an object tells from a body that says null.
      if (validate(data)) return true;
      return { error: new ApiError(kind, { detail: describe(validate.errors ?? []) }) };
    };
  };
}

/**
 * Checks every entry of the error catalogue against the contract's Error schema.
 * @throws Error naming the entry that does not fit.
 */
export function checkCatalogue(ajv: Ajv, errorSchema: object): void {
  const validate = ajv.compile(errorSchema);
  for (const kind of Object.keys(catalogue) as ErrorKind[]) {
    if (!validate(JSON.parse(new ApiError(kind).json))) {
      throw new Error(`Error ${kind} does not fit the contract: ${describe(validate.errors ?? [])}`);
    }
  }
}

/** Ajv as everything here uses it: all faults at once, nothing coerced or removed, unknown keywords refused. */
export function createAjv(): Ajv {
  const ajv = new Ajv({ allErrors: true, coerceTypes: false, removeAdditional: false, useDefaults: false });
  addFormats.default(ajv, { mode: 'full' });
  // Annotations of OpenAPI 3.0's schema object, which assert nothing.
  ajv.addVocabulary(['example', 'externalDocs']);
  return ajv;
}

/**
 * A schema for the request validator. A bigint is no "integer" to Ajv, a rounded number would be one, and a text is no
 * number at all, so such values are read by the keyword `read`; every string must be well-formed.
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

/** Reads a value of a type; undefined when it has none. Integers come as bigint. */
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

/** What a message says of a value that cannot be read, by its type. */
const rules: Readonly<Record<string, string>> = {
  number: 'must be a number',
  boolean: 'must be true or false',
  string: 'must be text',
};

/** What it says of the way a parameter is to be written. */
const hints: Readonly<Record<string, string>> = {
  integer: ', in canonical decimal digits',
  number: ', in decimal digits',
};

type CompiledKeyword = ReturnType<NonNullable<FuncKeywordDefinition['compile']>>;

/** Reads a value, checks it against the rest of its schema, and puts it in its place. */
function readKeyword(ajv: Ajv, source: Source, schema: Schema): CompiledKeyword {
  const { type = '', format, minimum, maximum, nullable } = schema;
  const read = readers[source][type];
  if (read === undefined) throw new Error(`no reader for ${type} in ${source}`);
  const range = integerRanges[format === 'int32' || format === 'int64' ? format : 'double'];
  const min = minimum === undefined ? range.min : BigInt(Math.ceil(minimum as number));
  const max = maximum === undefined ? range.max : BigInt(Math.floor(maximum as number));
  // A bigint cannot be checked by Ajv; its range is, above, and nothing else may be asked of one (contract/support.ts).
  const rest = format === 'int64' ? undefined : ajv.compile(schema);
  const rule = type === 'integer' ? `must be an integer from ${min} to ${max}` : rules[type];
  const hint = hints[type] ?? '';

  const keyword: CompiledKeyword = (data: unknown, context) => {
    if (data === null && nullable === true) return true;
    const value = read(data);
    if (value === undefined || (typeof value === 'bigint' && (value < min || value > max))) {
      const textHint = Array.isArray(data) ? ', given once' : hint;
      keyword.errors = [{ message: `${rule}${source === 'text' ? textHint : ''}` }];
      return false;
    }
    const result = typeof value === 'bigint' && rest !== undefined ? Number(value) : value;
    if (rest !== undefined && !rest(result)) {
      keyword.errors = (rest.errors ?? []).map(({ keyword, params, message = '' }) => ({
        keyword,
        params,
        message,
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

/** All faults in one line for a person: "id is missing; nmae is not known". */
function describe(errors: readonly ErrorObject[]): string {
  const faults = errors.slice(0, describedFaults).map(describeFault);
  if (errors.length > describedFaults) faults.push(`and ${errors.length - describedFaults} more faults`);
  return faults.join('; ');
}

function describeFault({ instancePath, keyword, params, message = 'is not valid' }: ErrorObject): string {
  // Ajv gives no params for the errors of a keyword of our own.
  const { missingProperty, additionalProperty, allowedValues } =
    (params as
      { missingProperty?: string; additionalProperty?: string; allowedValues?: unknown[] } | undefined) ?? {};
  const place = instancePath.slice(1).split('/').map(unescape).join('.');
  const inside = (name: string) => (place === '' ? name : `${place}.${name}`);
  if (keyword === 'required') return `${inside(missingProperty ?? '')} is missing`;
  if (keyword === 'additionalProperties') return `${inside(quote(additionalProperty ?? ''))} is not known`;
  const fault = allowedValues === undefined ? message : `must be one of ${allowedValues.join(', ')}`;
  return `${place === '' ? 'it' : place} ${fault}`;
}

/** A step of a JSON Pointer (RFC 6901 section 4), which a client may have made up. */
function unescape(step: string): string {
  return shorten(step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** A name that the client made up, kept short and well-formed. */
function quote(name: string): string {
  return JSON.stringify(shorten(name));
}

function shorten(name: string): string {
  const short = name.length > repeatedNameLength ? `${name.slice(0, repeatedNameLength)}…` : name;
  return short.toWellFormed();
}
