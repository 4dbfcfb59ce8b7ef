// Validates requests and responses with Ajv against the contract's schemas, and reads the values of requests.
import { Ajv, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Finding } from '../../../contract/document/finding.js';
import { LinearPattern, patternOf } from '../../../contract/schema/pattern.js';
import { isRecursive } from '../../../contract/schema/schema-walk.js';
import { isAnything, type Sample, type Schema } from '../../../contract/schema/schema.js';
import { unknownDepth } from '../../../contract/schema/shape.js';
import { Rewriter, type RewriteOptions } from './ajv-schema.js';
import { faultsOf, textOf, type Fault } from './fault-messages.js';
import { addKeywords } from './keywords.js';
import type { ValueSource } from './numeric-keyword.js';
import { ValueReader } from './values.js';
import { Verdicts } from './verdicts.js';

/** Keywords that Ajv knows only in its slower version for JSON Schema 2020-12. */
const newerKeywords = /"(?:prefixItems|(?:min|max)Contains|dependent\w+|unevaluated\w+)"/;
/**
 * With one of these names in a contract, Ajv must look for own properties: a request without it would seem to have it.
 * Test: test/contract/garden.test.ts, "names that JavaScript objects inherit are names like any other".
 */
const inheritedNames = Object.getOwnPropertyNames(Object.prototype);

/** The purpose for which schemas are compiled. */
type Purpose = Omit<RewriteOptions, 'hasRefused' | 'hasUnevaluated'>;

/** The maximum number of steps for the patterns of a part: one for each character and each part of its pattern. */
const maxSteps = 1_920_000;

/** It takes too long to match the patterns of a part. */
class TooCostlyError extends Error {}

/** Counts the steps that patterns take. */
class StepCount {
  #left = Infinity;

  /** Runs a function with a limit on steps. @throws TooCostlyError if it is exceeded. */
  limit<Result>(run: () => Result): Result {
    this.#left = maxSteps;
    try {
      return run();
    } finally {
      this.#left = Infinity;
    }
  }

  /** Returns the matcher of a pattern; Ajv shares those with the same text. The end of a text counts as a character. */
  matcherOf(source: string): Pick<LinearPattern, 'test' | 'toString'> {
    const pattern = patternOf(source);
    if (!(pattern instanceof LinearPattern)) return pattern;
    return {
      test: (text) => {
        this.#left -= (text.length + 1) * pattern.size;
        if (this.#left < 0) throw new TooCostlyError();
        return pattern.test(text);
      },
      toString: () => pattern.toString(),
    };
  }
}

/** Compiles the schemas of a contract. */
export class Compiler {
  readonly #text: string;
  readonly #ajv: Ajv | Ajv2020;
  readonly #steps = new StepCount();
  readonly #rewriters = new Map<string, Rewriter>();
  readonly #waiting: (() => void)[] = [];
  /** Compiled schemas by their rewritten form, which many small schemas share. */
  readonly #compiled = new Map<string, ValidateFunction>();

  /**
   * @param document - The contract.
   * @param isOnce - Whether each schema checks few values, so that compiling it must be fast.
   */
  constructor(document: object, isOnce = false) {
    this.#text = JSON.stringify(document);
    this.#ajv = createAjv(this.#text, isOnce, this.#steps);
  }

  /** Compiles a schema. */
  compile(schema: Schema, purpose: Purpose): CompiledSchema {
    const rewriter = this.#rewriterOf(purpose);
    const written = rewriter.rewrite(schema);
    const key = JSON.stringify(written);
    const validate = this.#compiled.get(key) ?? this.#ajv.compile(written);
    this.#compiled.set(key, validate);
    this.#compileOthers();
    const find = (name: string) => this.#ajv.getSchema(name)!;
    const variantsOf = (part: Schema) => {
      const names = rewriter.namesOf(part);
      this.#compileOthers();
      return names.map(find);
    };
    return new CompiledSchema(schema, {
      validate,
      source: purpose.source,
      find,
      variantsOf,
      steps: this.#steps,
    });
  }

  #compileOthers(): void {
    for (let next = this.#waiting.pop(); next !== undefined; next = this.#waiting.pop()) next();
  }

  /** Schemas that are rewritten in the same way share the schemas that they refer to. */
  #rewriterOf(purpose: Purpose): Rewriter {
    const { source, isResponse = false, isExample = false } = purpose;
    const key = [source, isResponse, isExample].join();
    const known = this.#rewriters.get(key);
    if (known !== undefined) return known;
    const options = {
      ...purpose,
      hasRefused: /"(?:readOnly|writeOnly)"/.test(this.#text),
      hasUnevaluated: this.#text.includes('"unevaluated'),
    };
    const rewriter = new Rewriter(options, `s${this.#rewriters.size}-`, (name, schema) => {
      this.#ajv.addSchema(schema, name);
      this.#waiting.push(() => this.#ajv.getSchema(name));
    });
    this.#rewriters.set(key, rewriter);
    return rewriter;
  }
}

/** Creates an Ajv instance that coerces and removes nothing, and refuses unknown keywords. */
function createAjv(text: string, isOnce: boolean, steps: StepCount): Ajv | Ajv2020 {
  const matcherOf = (source: string) => steps.matcherOf(source);
  const ajv = new (newerKeywords.test(text) ? Ajv2020 : Ajv)({
    allErrors: true,
    // Passes to keywords the verdicts about the values.
    passContext: true,
    // Lets messages name the actual type.
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
    code: { optimize: !isOnce, regExp: Object.assign(matcherOf, { code: 'matcherOf' }) },
    // Slower, and needed only for properties with names that objects inherit, such as "constructor".
    ownProperties: inheritedNames.some((name) => text.includes(`"${name}"`)),
  });
  addKeywords(ajv);
  return ajv;
}

/** The result of compiling a schema. */
interface Compiled {
  readonly validate: ValidateFunction;
  readonly source: ValueSource;
  /** Finds a schema that others refer to, by its name, and all that were compiled from a schema of the contract. */
  readonly find: (name: string) => ValidateFunction;
  readonly variantsOf: (schema: Schema) => readonly ValidateFunction[];
  readonly steps: StepCount;
}

const tooDeep = describe('type', `is nested more than ${unknownDepth} levels deep`);
const tooCostly = describe('pattern', 'takes too long to check: send fewer values at a time');

function describe(rule: string, message: string): Fault {
  return { path: '', place: '', rule, message };
}

/** Validates values by a schema. */
export class CompiledSchema {
  readonly #schemas: readonly Schema[];
  readonly #compiled: Compiled;
  readonly #isRecursive: boolean;

  constructor(schema: Schema, compiled: Compiled) {
    this.#schemas = isAnything(schema) ? [] : [schema];
    this.#compiled = compiled;
    this.#isRecursive = isRecursive(schema);
  }

  /** Returns the faults of a value, at most one more than are listed; none if it is valid. */
  faultsOf(data: unknown, verdicts = new Verdicts()): readonly Fault[] {
    const { validate } = this.#compiled;
    if (validate.call(verdicts, data)) return [];
    return faultsOf(validate.errors ?? [], { ...this.#compiled, verdicts });
  }

  /**
   * Validates a value from a client, and turns it into what handlers expect, in place as far as it is an object or array.
   * @returns The value, which means nothing if it has faults.
   */
  read(data: unknown): { readonly value: unknown; readonly faults: readonly Fault[] } {
    if (this.#isRecursive && isDeeper(data, unknownDepth)) return { value: data, faults: [tooDeep] };
    try {
      return this.#compiled.steps.limit(() => this.#read(data));
    } catch (error) {
      if (error instanceof TooCostlyError) return { value: data, faults: [tooCostly] };
      throw error;
    }
  }

  #read(data: unknown) {
    const verdicts = new Verdicts();
    const faults = this.faultsOf(data, verdicts);
    const reader = new ValueReader((schema, value) => this.#matches(schema, value, verdicts));
    const value = reader.read(this.#schemas, data);
    if (reader.faults.length === 0) return { value, faults };
    const isOther = ({ path }: Fault) => !faults.some((fault) => `${path}/`.startsWith(`${fault.path}/`));
    return { value, faults: [...faults, ...reader.faults.filter(isOther)] };
  }

  /** Whether a value matches a schema inside, as far as it is known without validating it once more. */
  #matches(schema: Schema, value: unknown, verdicts: Verdicts): boolean {
    const variants = this.#compiled.variantsOf(schema);
    if (typeof value === 'object' && value !== null)
      for (const validate of variants) {
        const known = verdicts.known(validate, value);
        if (known !== undefined) return known;
      }
    return verdicts.holds(variants[0]!, value);
  }
}

/** Whether arrays and objects are nested more than some levels deep. */
function isDeeper(data: unknown, levels: number): boolean {
  if (typeof data !== 'object' || data === null || ArrayBuffer.isView(data)) return false;
  return levels === 0 || Object.values(data).some((value) => isDeeper(value, levels - 1));
}

/** Compiles a schema for a part of a request. @param source - Whether it is JSON, or texts that have been read. */
export function compileForRequests(compiler: Compiler, schema: Schema, source: ValueSource): CompiledSchema {
  const compiled = compiler.compile(schema, { source });
  // V8 compiles a function when it is called first, and the first body of a schema with very many properties would wait.
  compiled.faultsOf({});
  return compiled;
}

/** Returns a description of all faults of a response, or undefined if it is valid. */
export type ResponseValidator = (data: unknown) => string | undefined;

/** Compiles the validator of a response. */
export function createResponseValidator(compiler: Compiler, schema: Schema): ResponseValidator {
  const compiled = compiler.compile(schema, { source: 'json', isResponse: true });
  return (data) => textOf(compiled.faultsOf(data)) || undefined;
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
    const fault = textOf(compiler.compile(schema, { source: 'json', ...purpose }).faultsOf(value));
    return fault === '' ? [] : find(...describeFault(fault.replaceAll(': send ', ': write ')));
  });
}

function hasRounded(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some(hasRounded);
  return Number.isInteger(value) && !Number.isSafeInteger(value);
}
