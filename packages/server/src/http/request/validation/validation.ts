// Validates requests and responses with Ajv against the contract's schemas, without changing anything, and with exact
// numbers.
import { Ajv, str, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { exactJson } from '../../../contract/document/json-text.js';
import type { Finding } from '../../../contract/document/finding.js';
import type { Sample, Schema } from '../../../contract/schema/schema.js';
import { isChoosing, isRecursive } from '../../../contract/schema/schema-walk.js';
import { LinearPattern, patternOf } from '../../../contract/schema/pattern.js';
import { UploadedFile } from '../../../contract/raw-body.js';
import { createRewriter, type BytesRule, type RewriteOptions } from './ajv-schema.js';
import { count, countText, counting, isCostly, limitDepth } from './validation-effort.js';
import { describeFaults, innermost, type Faults } from './fault-messages.js';
import { addTextFormats } from './formats.js';
import { numericKeyword, type CompiledKeyword, type ValueSource } from './numeric-keyword.js';

/** Returns all faults of a value, or undefined if it is valid. */
export type Validator = (data: unknown) => Faults | undefined;
/** Returns a description of all faults of a response, or undefined if it is valid. */
export type ResponseValidator = (data: unknown) => string | undefined;

/** Keywords that Ajv knows only in its slower version for JSON Schema 2020-12. */
const newerKeywords = /"(?:prefixItems|(?:min|max)Contains|dependent\w+|unevaluated\w+)"/;
/**
 * With one of these names in a contract, Ajv must look for own properties: a request without it would seem to have it.
 * Test: test/contract/garden.test.ts, "names that JavaScript objects inherit are names like any other".
 */
const inheritedNames = Object.getOwnPropertyNames(Object.prototype);

/** What schemas are compiled for. */
type Purpose = Omit<RewriteOptions, 'allErrors' | 'hasRefused' | 'hasUnevaluated'>;

/** Compiles the schemas of a contract. */
export class Compiler {
  readonly #text: string;
  readonly #ajv = new Map<boolean, Ajv | Ajv2020>();
  readonly #rewriters = new Map<string, ReturnType<typeof createRewriter>>();
  readonly #waiting: (() => void)[] = [];
  /** By what Ajv gets, which many small schemas have in common. */
  readonly #compiled = new Map<string, ValidateFunction>();
  readonly #isOnce: boolean;

  /**
   * @param document - The contract.
   * @param isOnce - Whether each schema checks few values, so that compiling it must be fast.
   */
  constructor(document: object, isOnce = false) {
    this.#text = JSON.stringify(document);
    this.#isOnce = isOnce;
  }

  /** Compiles a schema; one with alternatives reports only the first fault, since there could be very many. */
  compile(schema: Schema, purpose: Purpose): ValidateFunction {
    const allErrors = !isChoosing(schema);
    const ajv = this.#ajv.get(allErrors) ?? createAjv(this.#text, allErrors, this.#isOnce);
    this.#ajv.set(allErrors, ajv);
    const written = this.#rewriterOf(purpose, ajv)(schema);
    const key = `${allErrors} ${JSON.stringify(written)}`;
    const validate = this.#compiled.get(key) ?? ajv.compile(written);
    this.#compiled.set(key, validate);
    for (let next = this.#waiting.pop(); next !== undefined; next = this.#waiting.pop()) next();
    return validate;
  }

  /** Schemas that are rewritten in the same way share the schemas that they refer to. */
  #rewriterOf(purpose: Purpose, ajv: Ajv | Ajv2020): ReturnType<typeof createRewriter> {
    const { source, isCounted = false, isResponse = false, isExample = false } = purpose;
    const { allErrors = false } = ajv.opts;
    const key = [allErrors, source, isCounted, isResponse, isExample].join();
    const known = this.#rewriters.get(key);
    if (known !== undefined) return known;
    const options = {
      ...purpose,
      allErrors,
      hasRefused: /"(?:readOnly|writeOnly)"/.test(this.#text),
      hasUnevaluated: this.#text.includes('"unevaluated'),
    };
    const rewriter = createRewriter(options, `s${this.#rewriters.size}-`, (name, schema) => {
      ajv.addSchema(schema, name);
      this.#waiting.push(() => ajv.getSchema(name));
    });
    this.#rewriters.set(key, rewriter);
    return rewriter;
  }
}

/** Compiles `refer`: like `$ref`, but what it refers to is compiled later, so that references may be nested deeply. */
function referTo(name: string, ajv: Ajv | Ajv2020): CompiledKeyword {
  let found: ValidateFunction | undefined;
  const validate: CompiledKeyword = (data: unknown, at) => {
    found ??= ajv.getSchema(name)!;
    const isValid = found(data, at);
    validate.errors = (found.errors ?? []).map((error) => ({ params: { error: innermost(error) } }));
    return isValid;
  };
  return validate;
}

/** What matches a pattern; Ajv shares those that have the same text. */
function matcherOf(source: string): Pick<LinearPattern, 'test' | 'toString'> {
  const pattern = patternOf(source);
  if (!(pattern instanceof LinearPattern)) return pattern;
  return {
    test: (text) => {
      countText(text, pattern.size);
      return pattern.test(text);
    },
    toString: () => pattern.toString(),
  };
}

/** Creates an Ajv instance that coerces and removes nothing, and refuses unknown keywords. */
function createAjv(text: string, allErrors: boolean, isOnce: boolean): Ajv | Ajv2020 {
  const ajv = new (newerKeywords.test(text) ? Ajv2020 : Ajv)({
    allErrors,
    // Messages say what came instead of the right type.
    verbose: true,
    coerceTypes: false,
    removeAdditional: false,
    // The normal form is valid; compiling the meta-schema would delay the start.
    meta: false,
    validateSchema: false,
    inlineRefs: false,
    useDefaults: false,
    // Parts of a composition may leave the type to another part.
    strictTypes: false,
    strictTuples: false,
    allowMatchingProperties: true,
    // Takes a time that grows with the square of the number of alternatives.
    code: { optimize: allErrors && !isOnce, regExp: Object.assign(matcherOf, { code: 'matcherOf' }) },
    // Slower, and needed only for properties with names that objects inherit, such as "constructor".
    ownProperties: inheritedNames.some((name) => text.includes(`"${name}"`)),
  });
  addTextFormats(ajv);
  ajv.addKeyword({ keyword: 'refer', errors: 'full', compile: (name: string) => referTo(name, ajv) });
  ajv.addKeyword({ keyword: 'numeric', errors: false, compile: numericKeyword });
  ajv.addKeyword({
    keyword: 'wellFormed',
    type: 'string',
    error: { message: 'must not contain unpaired surrogates' },
    validate: (_: true, data: string) => data.isWellFormed(),
  });
  ajv.addKeyword({ keyword: 'bytes', errors: true, compile: bytesKeyword });
  ajv.addKeyword({
    keyword: 'distinct',
    type: 'array',
    error: { message: 'must not contain equal items' },
    validate: ({ isCounted }: { isCounted: boolean }, data: unknown[]) => {
      const texts = data.map(canonicalJson);
      if (isCounted) for (const text of texts) countText(text);
      return new Set(texts).size === data.length;
    },
  });
  ajv.addKeyword({
    keyword: 'refused',
    error: { message: ({ schema }) => str`is ${schema as string}: leave it out` },
    validate: () => false,
  });
  // Before the keywords that combine schemas.
  ajv.addKeyword({ keyword: 'counted', before: 'not', validate: count });
  return ajv;
}

/** Compiles `bytes`: a file of a form, or a whole body. */
function bytesKeyword({ minLength = 0, maxLength = Infinity }: BytesRule): CompiledKeyword {
  const check = (data: unknown) => {
    const bytes = data instanceof UploadedFile ? data.bytes : data;
    if (!(bytes instanceof Uint8Array)) return [{ keyword: 'type', message: 'must be a file' }];
    if (bytes.length < minLength)
      return [{ keyword: 'minLength', message: `must have at least ${minLength} bytes` }];
    if (bytes.length > maxLength)
      return [{ keyword: 'maxLength', message: `must have at most ${maxLength} bytes` }];
    return [];
  };
  const validate: CompiledKeyword = (data: unknown) => {
    validate.errors = check(data).map((fault) => ({ ...fault, params: {} }));
    return validate.errors.length === 0;
  };
  return validate;
}

/** The JSON of a value, which is the same for all values that are equal. */
function canonicalJson(value: unknown): string {
  // Numbers that JavaScript cannot represent, with their digits.
  if (typeof value === 'symbol') return String(value);
  if (value instanceof UploadedFile)
    return JSON.stringify([value.filename, value.mediaType, Buffer.from(value.bytes).toString('base64')]);
  if (typeof value !== 'object' || value === null) return exactJson(value)!;
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  const entries = Object.entries(value).map(
    ([name, part]) => `${JSON.stringify(name)}:${canonicalJson(part)}`,
  );
  return `{${entries.sort().join(',')}}`;
}

/**
 * Compiles the validator of a part of a request.
 * @param schema - Its schema in the normal form.
 * @param source - Whether the part is JSON, or texts that have been read as what the schema says.
 */
export function createValidator(compiler: Compiler, schema: Schema, source: ValueSource): Validator {
  const validate = compiler.compile(schema, { source, isCounted: isCostly(schema) });
  const hasLimit = isRecursive(schema);
  const check: Validator = (data) => {
    if (hasLimit) limitDepth(data);
    const isValid = counting(validate, data);
    if (typeof isValid === 'string') return { text: isValid, list: [] };
    return isValid ? undefined : describeFaults(validate.errors ?? [], source);
  };
  // V8 compiles a function when it is called first, and the first body of a schema with very many properties would wait.
  check({});
  return check;
}

/** Finds the defaults that their schemas do not allow: they would be filled in without a check. */
export function findWrongDefaults(compiler: Compiler, defaults: readonly Sample[]): Finding[] {
  return findUnfit(compiler, defaults, {}, (fault) => [
    `the default does not match its schema: ${fault}`,
    'Write a value that the schema allows, or leave it out; what requests without a value mean changes',
  ]);
}

/** Finds the examples that their schemas do not allow, in requests or responses. */
export function findWrongExamples(compiler: Compiler, examples: readonly Sample[]): Finding[] {
  // The parser has rounded some integers.
  const exactly = examples.filter(({ value }) => !hasRounded(value));
  return findUnfit(compiler, exactly, { isExample: true }, (fault) => [
    'the example does not match its schema',
    `Correct one of them: ${fault}`,
  ]);
}

function findUnfit(
  compiler: Compiler,
  samples: readonly Sample[],
  purpose: Partial<Purpose>,
  describeFault: (fault: string) => [message: string, fix: string],
): Finding[] {
  return samples.flatMap(({ schema, value, find }) => {
    const validate = compiler.compile(schema, { source: 'json', ...purpose });
    if (validate(value)) return [];
    const fault = describeFaults(validate.errors ?? [], 'json').text;
    return find(...describeFault(fault.replaceAll(': send ', ': write ')));
  });
}

function hasRounded(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some(hasRounded);
  return Number.isInteger(value) && !Number.isSafeInteger(value);
}

/**
 * Compiles the validator of a response. Its checks are not counted: the service itself has made the body, and the server's
 * own limits would turn what has already happened into an error.
 */
export function createResponseValidator(compiler: Compiler, schema: Schema): ResponseValidator {
  const validate = compiler.compile(schema, { source: 'json', isResponse: true });
  return (data) => (validate(data) ? undefined : describeFaults(validate.errors ?? [], 'json').text);
}
