// Validates requests and responses with Ajv against the contract's schemas, and reads the values of requests.
import { Ajv, type FuncKeywordDefinition, type ValidateFunction } from 'ajv';
import { listedFaults } from '../../../base/errors.js';
import type { Finding } from '../../../contract/document/finding.js';
import { patternOf } from '../../../contract/schema/pattern.js';
import type { Sample, Schema } from '../../../contract/schema/schema.js';
import { WrittenSchema } from './ajv-schema.js';
import { Completion } from './completion.js';
import { textOf, type Fault, type ValueSource } from './fault-messages.js';
import { addTextFormats } from './formats.js';
import { Validation } from './verdict.js';

/** Compiles schemas with all that they contain. */
export class Compiler {
  readonly #ajv: Ajv;
  readonly #compiled = new Map<Schema, ValidateFunction>();

  constructor() {
    this.#ajv = new Ajv({
      allErrors: true,
      // Passes the verdict to our checks.
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
      // Otherwise, a request would seem to have a property that objects inherit, such as "constructor".
      ownProperties: true,
    });
    addTextFormats(this.#ajv);
    // The checks that refuse a property come first, before other schemas miss it.
    type Compile = NonNullable<FuncKeywordDefinition['compile']>;
    const compile: Compile = (find: () => ReturnType<Compile>) => find();
    this.#ajv.addKeyword({ keyword: 'checks', errors: false, before: 'allOf', compile });
  }

  /** Compiles a schema. @param source - Whether values are JSON, or texts that have been read. */
  compile(schema: Schema, source: ValueSource): CompiledSchema {
    const all = new Set([schema]);
    for (const part of all) {
      if (this.#compiled.has(part)) continue;
      const written = new WrittenSchema(part);
      this.#compiled.set(part, this.#ajv.compile(written.schema));
      for (const inner of written.separate) all.add(inner);
    }
    return new CompiledSchema(schema, (part) => this.#compiled.get(part)!, source);
  }
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
    const validation = new Validation(this.#find, this.#source);
    const { faults } = validation.judgeWhole(this.#schema, data);
    const completion = new Completion(validation, false);
    completion.complete(data, []);
    return together(faults, completion.faults);
  }

  /**
   * Validates a value from a client, and turns it into what handlers expect, in place as far as it is an object or array.
   * @returns The value, which means nothing if it has faults.
   */
  read(data: unknown): { readonly value: unknown; readonly faults: readonly Fault[] } {
    const validation = new Validation(this.#find, this.#source);
    const { isValid, faults } = validation.judgeWhole(this.#schema, data);
    const completion = new Completion(validation, isValid);
    const value = completion.complete(data, [this.#schema]);
    return { value, faults: together(faults, completion.faults) };
  }
}

/** The faults by the schema, each once, and those of values that cannot be kept. */
function together(faults: readonly Fault[], unkept: readonly Fault[]): readonly Fault[] {
  if (faults.length === 0 && unkept.length === 0) return faults;
  const isTold = ({ path }: Fault) => faults.some((other) => `${path}/`.startsWith(`${other.path}/`));
  const all = [...faults, ...unkept.filter((fault) => !isTold(fault))];
  const distinct = new Map(all.map((fault) => [`${fault.path} ${fault.message}`, fault]));
  return [...distinct.values()].slice(0, listedFaults + 1);
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
  return defaults.flatMap(({ schema, value, node }) => {
    const fault = textOf(compiler.compile(schema, 'json').faultsOf(value));
    if (fault === '') return [];
    return node.find(
      `the default does not match its schema: ${fault}`,
      'Write a value that the schema allows, or leave it out; what requests without a value mean changes',
    );
  });
}
