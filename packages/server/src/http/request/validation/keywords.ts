// The keywords that Ajv does not have, or that are faster or more exact than its own.
import { str, type Ajv, type ValidateFunction } from 'ajv';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { UploadedFile } from '../../../contract/raw-body.js';
import type { BytesRule } from './ajv-schema.js';
import { compileChoice, type ChoiceRule } from './choice.js';
import { addTextFormats } from './formats.js';
import { numericKeyword, type CompiledKeyword } from './numeric-keyword.js';
import type { At, Verdicts } from './verdicts.js';

/**
 * Adds the formats and keywords to Ajv. Keywords that report no errors are described from Ajv's verbose mode: if
 * several keywords reported errors, Ajv would take a time that grows with the square of their number.
 */
export function addKeywords(ajv: Ajv | Ajv2020): void {
  addTextFormats(ajv);
  const find = (name: string): ValidateFunction => ajv.getSchema(name)!;
  ajv.addKeyword({
    keyword: 'refer',
    errors: false,
    // The target is compiled later, so that references may be nested deeply.
    compile: (name: string) => {
      let validate: ValidateFunction | undefined;
      return function (this: Verdicts, data: unknown, at?: At) {
        return this.holds((validate ??= find(name)), data, at);
      };
    },
  });
  ajv.addKeyword({
    keyword: 'choice',
    errors: false,
    compile: (groups: readonly ChoiceRule[]) => compileChoice(groups, find),
  });
  ajv.addKeyword({ keyword: 'numeric', errors: false, compile: numericKeyword });
  ajv.addKeyword({
    keyword: 'needs',
    type: 'object',
    before: 'required',
    errors: false,
    validate: (names: readonly string[], data: object) => names.every((name) => Object.hasOwn(data, name)),
  });
  ajv.addKeyword({
    keyword: 'wellFormed',
    type: 'string',
    error: { message: 'must not contain unpaired surrogates' },
    validate: (_: true, data: string) => data.isWellFormed(),
  });
  ajv.addKeyword({
    keyword: 'distinct',
    type: 'array',
    error: { message: 'must not contain equal items' },
    validate(this: Verdicts, _: true, data: unknown[]) {
      return this.areDistinct(data);
    },
  });
  ajv.addKeyword({
    keyword: 'refused',
    error: { message: ({ schema }) => str`is ${schema as string}: leave it out` },
    validate: () => false,
  });
  ajv.addKeyword({ keyword: 'bytes', errors: true, compile: compileBytes });
}

/** Compiles `bytes`: a file of a form, or a whole body. */
function compileBytes({ minLength = 0, maxLength = Infinity }: BytesRule) {
  const check = (data: unknown) => {
    const bytes = data instanceof UploadedFile ? data.bytes : data;
    if (!(bytes instanceof Uint8Array)) return { keyword: 'type', message: 'must be a file', params: {} };
    if (bytes.length < minLength)
      return {
        keyword: 'minLength',
        message: `must have at least ${minLength} bytes`,
        params: { expected: minLength },
      };
    if (bytes.length > maxLength)
      return {
        keyword: 'maxLength',
        message: `must have at most ${maxLength} bytes`,
        params: { expected: maxLength },
      };
    return undefined;
  };
  const validate: CompiledKeyword = (data: unknown) => {
    const fault = check(data);
    validate.errors = fault === undefined ? [] : [fault];
    return fault === undefined;
  };
  return validate;
}
