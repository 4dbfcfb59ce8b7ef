// Validates requests with Ajv against the contract's schemas, without changing anything, and with exact numbers.
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Schema } from '../../contract/schema.js';
import { isChoosing, rewrite, type RewriteOptions } from './ajv-schema.js';
import { count, isCostly, limitDepth, startCounting } from './validation-effort.js';
import { describe, type ValueSource } from './fault-messages.js';
import { addTextFormats } from './formats.js';
import { numericFaults, numericKeyword } from './numeric-keyword.js';

/** Returns a description of all faults of a value, or undefined if it is valid. */
export type Validator = (data: unknown) => string | undefined;

/** Keywords that Ajv knows only in its slower version for JSON Schema 2020-12. */
const newerKeywords = /"(?:prefixItems|(?:min|max)Contains|dependent\w+|unevaluated\w+)"/;
/** With one of these in a contract, Ajv must look for own properties: a request without it would seem to have it. */
const inheritedNames = Object.getOwnPropertyNames(Object.prototype);

/** Compiles the schemas of a contract. */
export class Compiler {
  readonly #text: string;
  readonly #all: Ajv | Ajv2020;
  #first: Ajv | Ajv2020 | undefined;

  /** @param document - The contract. */
  constructor(document: object) {
    this.#text = JSON.stringify(document);
    this.#all = createAjv(this.#text, true);
  }

  /** Compiles a schema; one with alternatives reports only the first fault, since there could be very many. */
  compile(schema: Schema, source: ValueSource, options: RewriteOptions) {
    const ajv = isChoosing(schema) ? (this.#first ??= createAjv(this.#text, false)) : this.#all;
    return ajv.compile(rewrite(schema, source, options));
  }
}

/** Creates an Ajv instance that coerces and removes nothing, and refuses unknown keywords. */
function createAjv(text: string, allErrors: boolean): Ajv | Ajv2020 {
  const ajv = new (newerKeywords.test(text) ? Ajv2020 : Ajv)({
    allErrors,
    // Messages say what came instead of the right type.
    verbose: true,
    coerceTypes: false,
    removeAdditional: false,
    // The normal form is valid; compiling the meta-schema would delay the start.
    meta: false,
    validateSchema: false,
    useDefaults: false,
    // Parts of a composition may leave the type to another part.
    strictTypes: false,
    strictTuples: false,
    allowMatchingProperties: true,
    // Slower, and needed only for properties with names that objects inherit, such as "constructor".
    ownProperties: inheritedNames.some((name) => text.includes(`"${name}"`)),
  });
  addTextFormats(ajv);
  ajv.addKeyword({ keyword: 'numeric', errors: false, compile: numericKeyword });
  ajv.addKeyword({
    keyword: 'wellFormed',
    type: 'string',
    error: { message: 'must not contain unpaired surrogates' },
    validate: (_: true, data: string) => data.isWellFormed(),
  });
  ajv.addKeyword({
    keyword: 'refused',
    error: { message: 'is read-only: leave it out' },
    validate: () => false,
  });
  // Before the keywords that combine schemas.
  ajv.addKeyword({ keyword: 'counted', before: 'not', validate: count });
  return ajv;
}

/**
 * Compiles the validator of a part of a request.
 * @param schema - Its schema in the normal form.
 * @param source - Whether the part is JSON, or texts that have been read as what the schema says.
 */
export function createValidator(compiler: Compiler, schema: Schema, source: ValueSource): Validator {
  const isCounted = isCostly(schema);
  const counted = isCounted ? (isChoosing(schema) ? 'first fault' : 'all faults') : undefined;
  const validate = compiler.compile(schema, source, { counted });
  compileEagerly(validate);
  const check: Validator = (data) =>
    validate(data) ? undefined : describe(validate.errors ?? [], source, numericFaults);
  if (!isCounted) return check;
  const isRecursive = Object.hasOwn(validate.schema as object, '$defs');
  return (data) => {
    if (isRecursive) limitDepth(data);
    startCounting();
    return check(data);
  };
}

/**
 * Runs a validator once: V8 compiles a function when it is called first, and the first body of a schema with very many
 * properties would wait for that.
 */
function compileEagerly(validate: (data: unknown) => unknown): void {
  startCounting();
  try {
    validate({});
  } catch {
    // A schema can be too costly even for this value; then all its bodies are refused.
  }
}

/** Compiles the function that returns whether a part of a response has an alternative of its schema. */
export function createMatcher(compiler: Compiler, schema: Schema): (data: unknown) => boolean {
  return compiler.compile(schema, 'json', { isLenient: true });
}
