// Ajv over the contract's schemas: strict, exact for 64-bit integers, and with messages for people.
import { Ajv, type AnySchemaObject, type ErrorObject, type SchemaValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import type { FastifySchemaCompiler } from 'fastify';
import { ApiError, catalogue, type ErrorKind } from '../../errors.js';
import { integerRanges, parseDecimal, type IntegerFormat } from './exact-json.js';

/** What an integer schema of the contract asks; the value of the keywords below. */
interface IntegerRule {
  format: IntegerFormat;
  minimum?: number;
  maximum?: number;
}

/** How many faults a message tells before it only counts them: a body can hold as many as it has bytes. */
const toldFaults = 10;
/** How much of a name that a client made up is repeated to it. */
const toldNameLength = 64;

/**
 * Compiles the schemas of requests. Bodies are checked as they are (nothing is coerced, nothing dropped); paths and
 * queries are text, whose integers are read from canonical decimal digits. Integers of format int64 reach
 * the handler as bigint, those of int32 as number.
 *
 * Passed to Fastify's setValidatorCompiler. What does not fit is an ApiError naming every fault.
 */
export function createValidatorCompiler(ajv: Ajv): FastifySchemaCompiler<AnySchemaObject> {
  ajv.addKeyword({
    keyword: 'jsonInteger',
    modifying: true,
    errors: true,
    validate: integerKeyword((data) =>
      typeof data === 'bigint' || Number.isInteger(data) ? BigInt(data as number) : undefined,
    ),
  });
  ajv.addKeyword({
    keyword: 'decimalInteger',
    modifying: true,
    errors: true,
    validate: integerKeyword(
      (data) => (typeof data === 'string' ? parseDecimal(data) : undefined),
      decimalHint,
    ),
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
    const isBody = httpPart === 'body';
    const validate = ajv.compile(forRequests(schema, isBody ? 'jsonInteger' : 'decimalInteger'));
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
  addFormats.default(ajv, { mode: 'full', formats: ['int32', 'int64'] });
  // Annotations of OpenAPI 3.0's schema object, which assert nothing.
  ajv.addVocabulary(['example', 'externalDocs', 'xml', 'discriminator']);
  return ajv;
}

/**
 * A copy of a schema for the request validator: integers with a format become the given keyword, because a
 * bigint is no "integer" to Ajv and a rounded number would be one; every string must be well-formed.
 */
function forRequests(schema: unknown, integerKeyword: string): AnySchemaObject {
  return JSON.parse(JSON.stringify(schema), (_, node: unknown) => {
    if (!isObject(node)) return node;
    const { type, format, minimum, maximum, ...rest } = node;
    if (type === 'integer' && typeof format === 'string' && format in integerRanges) {
      return { ...rest, [integerKeyword]: { format, minimum, maximum } };
    }
    return type === 'string' ? { ...node, wellFormed: true } : node;
  }) as AnySchemaObject;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** An Ajv keyword that reads an integer exactly, checks its range and puts the read value in its place. */
function integerKeyword(
  read: (data: unknown) => bigint | undefined,
  hint: (data: unknown) => string = () => '',
): SchemaValidateFunction {
  const keyword: SchemaValidateFunction = (rule: IntegerRule, data: unknown, _schema, context) => {
    const range = integerRanges[rule.format];
    const min = rule.minimum === undefined ? range.min : BigInt(rule.minimum);
    const max = rule.maximum === undefined ? range.max : BigInt(rule.maximum);
    const value = read(data);
    if (value === undefined || value < min || value > max) {
      keyword.errors = [{ message: `must be an integer from ${min} to ${max}${hint(data)}` }];
      return false;
    }
    if (context !== undefined) {
      const parent = context.parentData as Record<string, unknown>;
      parent[String(context.parentDataProperty)] = rule.format === 'int64' ? value : Number(value);
    }
    return true;
  };
  return keyword;
}

/** What an integer of a path or a query needs beside being in range; a parameter that is repeated comes as an array. */
function decimalHint(data: unknown): string {
  return Array.isArray(data) ? ', given once' : ', in canonical decimal digits';
}

/** All faults in one line for a person: "id is missing; nmae is not known". */
function describe(errors: readonly ErrorObject[]): string {
  const faults = errors.slice(0, toldFaults).map(describeFault);
  if (errors.length > toldFaults) faults.push(`and ${errors.length - toldFaults} more faults`);
  return faults.join('; ');
}

function describeFault({ instancePath, keyword, params, message = 'is not valid' }: ErrorObject): string {
  // Ajv gives no params for the errors of a keyword of our own.
  const { missingProperty, additionalProperty } =
    (params as Record<string, string | undefined> | undefined) ?? {};
  const place = instancePath.slice(1).replaceAll('/', '.');
  const inside = (name: string) => (place === '' ? name : `${place}.${name}`);
  if (keyword === 'required') return `${inside(missingProperty ?? '')} is missing`;
  if (keyword === 'additionalProperties') return `${inside(quote(additionalProperty ?? ''))} is not known`;
  return `${place === '' ? 'it' : place} ${message}`;
}

/** A name that the client made up, kept short and well-formed. */
function quote(name: string): string {
  const short = name.length > toldNameLength ? `${name.slice(0, toldNameLength)}…` : name;
  return JSON.stringify(short.toWellFormed());
}
