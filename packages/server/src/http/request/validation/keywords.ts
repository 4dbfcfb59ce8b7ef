// Our keywords of Ajv: those that it does not have, or that judge a value by schemas that need not apply to it.
import { UploadedFile } from '../../../contract/raw-body.js';
import { isOfType } from '../../../contract/schema/json-types.js';
import { isNothing, type Schema } from '../../../contract/schema/schema.js';
import { evaluates, isObject } from './applied.js';
import { shown, typeMessage } from './fault-messages.js';
import { placeIn, type Verdict } from './verdict.js';

/** Checks a value: adds its faults to the verdict. */
export type Check = (this: Verdict, data: unknown, path: string) => void;

/** Creates the checks of our keywords, each in place of a keyword of the normal form, in the order in which they run. */
export const ownKeywords: { readonly [Keyword in keyof Schema]?: (schema: Schema) => Check } = {
  required: ({ required = [] }) =>
    function (data, path) {
      if (isObject(data)) requireAll(this, data, path, required);
    },
  dependentRequired: ({ dependentRequired = {} }) =>
    function (data, path) {
      if (!isObject(data)) return;
      for (const [name, names] of Object.entries(dependentRequired))
        if (Object.hasOwn(data, name)) requireAll(this, data, path, names);
    },
  refused: ({ refused }) =>
    function (data, path) {
      this.refuse(path, data, 'readOnly', `is ${refused!}: leave it out`);
    },
  binary: createBytes,
  uniqueItems: () =>
    function (data, path) {
      if (!Array.isArray(data)) return;
      const numbers = data.map((item) => this.validation.numberOf(item));
      if (new Set(numbers).size < data.length)
        this.refuse(path, data, 'uniqueItems', 'must not contain equal items');
    },
  contains: createContained,
  propertyNames: createNames,
  not: createExcluded,
  if: ({ if: condition, then, else: otherwise }) =>
    function (data, path) {
      const part = this.judge(condition!, data, path).isValid ? then : otherwise;
      if (part !== undefined) this.accept(this.judge(part, data, path));
    },
  unevaluatedItems: (schema) => createRest(schema, 'unevaluatedItems'),
  unevaluatedProperties: (schema) => createRest(schema, 'unevaluatedProperties'),
};

/** Creates the check by a schema that is compiled by itself. */
export function createReference(schema: Schema): Check {
  return function (data, path) {
    this.accept(this.judge(schema, data, path));
  };
}

/** Creates the check of bytes, a file of a form or a whole body. In JSON, they are a text. */
function createBytes({ type, minLength = 0, maxLength = Infinity }: Schema): Check {
  return function (data, path) {
    const { source } = this.validation;
    const isText = source === 'json';
    const bytes = data instanceof UploadedFile ? data.bytes : data;
    if (isText ? !isOfType(data, type) : !(bytes instanceof Uint8Array))
      this.refuse(path, data, 'type', isText ? typeMessage(type ?? [], data, source) : 'must be a file');
    if (typeof bytes !== 'string' && !(bytes instanceof Uint8Array)) return;
    const unit = isText ? 'characters' : 'bytes';
    if (bytes.length < minLength)
      this.refuse(path, data, 'minLength', `must have at least ${minLength} ${unit}`, minLength);
    if (bytes.length > maxLength)
      this.refuse(path, data, 'maxLength', `must have at most ${maxLength} ${unit}`, maxLength);
  };
}

function createContained({ contains, minContains = 1, maxContains = Infinity }: Schema): Check {
  return function (data, path) {
    if (!Array.isArray(data)) return;
    const count = data.filter((item, i) => this.judge(contains!, item, placeIn(path, i)).isValid).length;
    const [rule, bound] = count < minContains ? ['minContains', minContains] : ['maxContains', maxContains];
    if (count < minContains || count > maxContains)
      this.refuse(path, data, rule, `has ${count} items of the form that ${bound} must have`, bound);
  };
}

function createNames({ propertyNames }: Schema): Check {
  return function (data, path) {
    if (!isObject(data)) return;
    for (const name of Object.keys(data)) {
      const [fault] = this.judge(propertyNames!, name, placeIn(path, name)).faults;
      if (fault === undefined) continue;
      const message = `has a name that ${fault.message}`;
      this.add({ path: placeIn(path, name), rule: 'propertyNames', message });
    }
  };
}

function createExcluded({ not }: Schema): Check {
  const { enum: values, required, ...others } = not!;
  const isShort = Object.keys(others).length === 0;
  const message =
    isShort && values !== undefined
      ? `must not be ${values.map(shown).join(' or ')}`
      : isShort && required !== undefined
        ? `must not have ${required.join(' and ')}${required.length > 1 ? ' together' : ''}`
        : 'is of a form that the contract excludes';
  return function (data, path) {
    if (this.judge(not!, data, path).isValid) this.refuse(path, data, 'not', message);
  };
}

/** Creates the check of what no other keyword describes, of the schema and those that it combines. */
function createRest(schema: Schema, rule: 'unevaluatedItems' | 'unevaluatedProperties'): Check {
  const rest = schema[rule]!;
  return function (data, path) {
    if (typeof data !== 'object' || data === null) return;
    const isArray = Array.isArray(data);
    if (isArray !== (rule === 'unevaluatedItems')) return;
    for (const [key, part] of Object.entries(data) as [string, unknown][]) {
      if (evaluates(schema, data, key, (other, value) => this.judge(other, value, path).isValid)) continue;
      const place = placeIn(path, key);
      if (isNothing(rest)) this.refuse(place, part, rule, isArray ? 'is not allowed' : 'is unknown');
      else this.accept(this.judge(rest, part, place));
    }
  };
}

function requireAll(verdict: Verdict, data: object, path: string, names: readonly string[]): void {
  for (const name of names)
    if (!Object.hasOwn(data, name))
      verdict.add({ path: placeIn(path, name), rule: 'required', message: 'is missing' });
}
