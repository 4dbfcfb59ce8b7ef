// Validates requests and responses with Ajv against the contract's schemas, and reads the values of requests.
import { Ajv, type FuncKeywordDefinition, type ValidateFunction } from 'ajv';
import { listedFaults } from '../../../base/errors.js';
import { pointerOf, type Finding } from '../../../contract/document/finding.js';
import { UploadedFile } from '../../../contract/raw-body.js';
import { patternOf } from '../../../contract/schema/pattern.js';
import type { Sample, Schema } from '../../../contract/schema/schema.js';
import { maxNesting } from '../../../contract/schema/json-types.js';
import { unreadable } from '../texts.js';
import { writeSchema } from './ajv-schema.js';
import { textOf, type Fault, type ValueSource } from './fault-messages.js';
import { addTextFormats } from './formats.js';
import { createReference, ownKeywords, type Check } from './keywords.js';
import { createNumericCheck } from './numeric-keyword.js';
import { Validation, type At, type Verdict } from './verdicts.js';

/**
 * With one of these names in a contract, Ajv must look for own properties: a request without it would seem to have it.
 * Test: test/contract/garden.test.ts, "names that JavaScript objects inherit are names like any other".
 */
const inheritedNames = Object.getOwnPropertyNames(Object.prototype);

/** Compiles the schemas of a contract. */
export class Compiler {
  readonly #ajv: Ajv;
  readonly #compiled = new Map<Schema, ValidateFunction>();

  /** @param document - The contract. */
  constructor(document: object) {
    const text = JSON.stringify(document);
    this.#ajv = new Ajv({
      allErrors: true,
      // Passes the verdict to our keywords.
      passContext: true,
      // Lets messages name the actual type.
      verbose: true,
      // The normal form is valid; compiling the meta-schema would delay the start.
      meta: false,
      validateSchema: false,
      // Parts of a composition may leave the type to another part.
      strictTypes: false,
      strictTuples: false,
      allowMatchingProperties: true,
      // V8 leaves out what has no effect; Ajv would take longer for that than for the rest.
      code: { optimize: false, regExp: Object.assign(patternOf, { code: 'patternOf' }) },
      // Slower, and needed only for properties with names that objects inherit, such as "constructor".
      ownProperties: inheritedNames.some((name) => text.includes(`"${name}"`)),
    });
    addTextFormats(this.#ajv);
    const others = { numeric: createNumericCheck, reference: createReference };
    for (const [keyword, create] of Object.entries({ ...ownKeywords, ...others }))
      this.#ajv.addKeyword({
        keyword: `own:${keyword}`,
        errors: false,
        compile: (find: () => Schema) => asKeyword(create(find())),
        // What refuses a property is known before it is missed.
        ...(keyword === 'properties' && { before: 'allOf' }),
      });
  }

  /** Compiles a schema, with all that it contains. */
  compile(schema: Schema, source: ValueSource): CompiledSchema {
    const all = new Set([schema]);
    for (const part of all)
      if (!this.#compiled.has(part))
        this.#compiled.set(part, this.#ajv.compile(writeSchema(part, (inner) => all.add(inner))));
    return new CompiledSchema(schema, (part) => this.#compiled.get(part)!, source);
  }
}

/** The form that Ajv needs of a check, for which no value is wrong: the verdict has the faults. */
function asKeyword(check: Check): ReturnType<NonNullable<FuncKeywordDefinition['compile']>> {
  return function (this: Verdict, data: unknown, at?: At) {
    check.call(this, data, at!);
    return true;
  };
}

/** Validates values by a schema. */
export class CompiledSchema {
  readonly #schema: Schema;
  readonly #find: (schema: Schema) => ValidateFunction;
  readonly #source: ValueSource;

  /** @param find - Finds the compiled form of the schema, and of each inside. */
  constructor(schema: Schema, find: (schema: Schema) => ValidateFunction, source: ValueSource) {
    this.#schema = schema;
    this.#find = find;
    this.#source = source;
  }

  /** Returns the faults of a value, at most one more than are listed; none if it is valid. */
  faultsOf(data: unknown): readonly Fault[] {
    const doubts: Doubt[] = [];
    const owner = { value: data };
    isWithin(Infinity, owner, 'value', [], doubts);
    const verdict = this.#judge(owner);
    verdict.settle();
    return faultsWith(verdict, doubts);
  }

  /**
   * Validates a value from a client, and turns it into what handlers expect, in place as far as it is an object or array.
   * @returns The value, which means nothing if it has faults.
   */
  read(data: unknown): { readonly value: unknown; readonly faults: readonly Fault[] } {
    const doubts: Doubt[] = [];
    const owner = { value: data };
    if (!isWithin(maxNesting, owner, 'value', [], doubts)) {
      const message = `is nested more than ${maxNesting} levels deep`;
      return { value: data, faults: [{ path: '', rule: 'type', message }] };
    }
    const verdict = this.#judge(owner);
    verdict.complete();
    return { value: owner.value, faults: faultsWith(verdict, doubts) };
  }

  #judge(owner: { value: unknown }): Verdict {
    const place = { instancePath: '', parentData: owner, parentDataProperty: 'value' };
    return new Validation(this.#find, this.#source).judge(this.#schema, owner.value, place as unknown as At);
  }
}

/** The place of a value that perhaps cannot be kept: a number with many digits, or a text that is not well-formed. */
interface Doubt {
  readonly owner: object;
  readonly key: string;
  /** The steps to the object or array, after the one to the whole value. */
  readonly steps: readonly string[];
}

/** Whether arrays and objects are nested at most some levels deep. @param doubts - Receives the places in doubt. */
function isWithin(
  levels: number,
  owner: object,
  key: string,
  steps: readonly string[],
  doubts: Doubt[],
): boolean {
  const value = (owner as Record<string, unknown>)[key];
  if (typeof value !== 'object' || value === null) {
    if (describeUnkept(value) !== undefined) doubts.push({ owner, key, steps });
    return true;
  }
  if (value instanceof UploadedFile || ArrayBuffer.isView(value)) return true;
  if (levels === 0) return false;
  const inside = [...steps, key];
  for (const inner of Object.keys(value))
    if (!isWithin(levels - 1, value, inner, inside, doubts)) return false;
  return true;
}

/** Describes a value that handlers would get in another form than it was sent. */
function describeUnkept(value: unknown): Omit<Fault, 'path'> | undefined {
  if (typeof value === 'string')
    return value.isWellFormed()
      ? undefined
      : { rule: 'format', message: 'must not contain unpaired surrogates' };
  if (typeof value !== 'symbol' && (typeof value !== 'number' || Number.isFinite(value))) return undefined;
  const message = 'is a number with more digits than the server keeps: send it as a string';
  return { rule: 'type', message: unreadable(value) ?? message };
}

/** The faults of a verdict, each once, and those of values in doubt that no schema has put in a form that can be kept. */
function faultsWith({ faults }: Verdict, doubts: readonly Doubt[]): readonly Fault[] {
  if (faults.length === 0 && doubts.length === 0) return faults;
  const all = new Map(faults.map((fault) => [`${fault.path} ${fault.message}`, fault]));
  for (const { owner, key, steps } of doubts) {
    const fault = describeUnkept((owner as Record<string, unknown>)[key]);
    if (fault === undefined || all.size > listedFaults) continue;
    const path = pointerOf([...steps, key].slice(1));
    const isTold = faults.some((other) => `${path}/`.startsWith(`${other.path}/`));
    if (!isTold) all.set(path, { path, ...fault });
  }
  return [...all.values()];
}

/** Compiles a schema for a part of a request. @param source - Whether it is JSON, or texts that have been read. */
export function compileForRequests(compiler: Compiler, schema: Schema, source: ValueSource): CompiledSchema {
  const compiled = compiler.compile(schema, source);
  // V8 compiles a function when it is called first, and the first body of a schema with very many properties would wait.
  compiled.faultsOf({});
  return compiled;
}

/** Returns a description of all faults of a response, or undefined if it is valid. */
export type ResponseValidator = (data: unknown) => string | undefined;

/** Compiles the validator of a response. */
export function createResponseValidator(compiler: Compiler, schema: Schema): ResponseValidator {
  const compiled = compiler.compile(schema, 'json');
  return (data) => textOf(compiled.faultsOf(data)) || undefined;
}

/** Finds the defaults that their schemas do not allow: they would be filled in without a check. */
export function findWrongDefaults(compiler: Compiler, defaults: readonly Sample[]): Finding[] {
  return defaults.flatMap(({ schema, value, find }) => {
    const fault = textOf(compiler.compile(schema, 'json').faultsOf(value));
    if (fault === '') return [];
    return find(
      `the default does not match its schema: ${fault}`,
      'Write a value that the schema allows, or leave it out; what requests without a value mean changes',
    );
  });
}
