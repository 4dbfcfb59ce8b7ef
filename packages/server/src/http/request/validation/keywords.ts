// Our keywords of Ajv: those that it does not have, or that note what becomes of a value where a schema applies.
import { UploadedFile } from '../../../contract/raw-body.js';
import { setOwn } from '../../../contract/document/exact-json.js';
import { pointerOf } from '../../../contract/document/finding.js';
import { isOfType } from '../../../contract/schema/json-types.js';
import {
  allSchemas,
  combiningKeywords,
  isNothing,
  partsOf,
  type Schema,
} from '../../../contract/schema/schema.js';
import { propertyShape, shapeOf, type Shape } from '../../../contract/schema/shape.js';
import { evaluates } from './evaluated.js';
import { shown, typeMessage } from './fault-messages.js';
import { atPart, type At, type Verdict } from './verdict.js';

/** Checks a value: adds its faults to the verdict, and notes what follows if the schema applies. */
export type Check = (this: Verdict, data: unknown, at: At) => void;

/** Creates the checks of our keywords, each in place of a keyword of the normal form, in the order in which they run. */
export const ownKeywords: { readonly [Keyword in keyof Schema]?: (schema: Schema) => Check } = {
  required: ({ required = [] }) =>
    function (data, at) {
      if (isObject(data)) this.require(data, at, required);
    },
  dependentRequired: ({ dependentRequired = {} }) =>
    function (data, at) {
      if (!isObject(data)) return;
      for (const [name, names] of Object.entries(dependentRequired))
        if (Object.hasOwn(data, name)) this.require(data, at, names);
    },
  refused: ({ refused }) =>
    function (data, at) {
      this.refuse(at, data, 'readOnly', `is ${refused!}: leave it out`);
    },
  binary: createBytes,
  enum: createListed,
  uniqueItems: () =>
    function (data, at) {
      if (!Array.isArray(data)) return;
      const numbers = data.map((item) => this.validation.numberOf(item));
      if (new Set(numbers).size < data.length)
        this.refuse(at, data, 'uniqueItems', 'must not contain equal items');
    },
  contains: createContained,
  propertyNames: createNames,
  not: createExcluded,
  if: ({ if: condition, then, else: otherwise }) =>
    function (data, at) {
      const part = this.judge(condition!, data, at).isValid ? then : otherwise;
      if (part !== undefined) this.accept(this.judge(part, data, at));
    },
  unevaluatedItems: (schema) => createRest(schema, 'unevaluatedItems'),
  unevaluatedProperties: (schema) => createRest(schema, 'unevaluatedProperties'),
};

/** Creates the check by a schema that is compiled by itself. */
export function createReference(schema: Schema): Check {
  return function (data, at) {
    this.accept(this.judge(schema, data, at));
  };
}

/**
 * Whether a schema, with all that it combines, has properties with defaults, or those that an object must not have, at
 * once or in an object that several of its parts describe.
 */
export function isSpecial(schema: Schema): boolean {
  if (sharedNames(schema).length > 0) return true;
  const together = [...allSchemas(schema, combiningKeywords)];
  return together
    .flatMap((part) => partsOf(part, ['properties']))
    .some((property) => property.refused !== undefined || propertyShape(property).default !== undefined);
}

/** Creates the check of an object for which isSpecial holds: it fills in the defaults that no other schema refuses. */
export function createSpecial(schema: Schema): Check {
  const shape = shapeOf(schema);
  const defaults = Object.entries(schema.properties ?? {}).map(
    ([name, part]) => [name, part, propertyShape(part).default] as const,
  );
  const shared = sharedNames(schema);
  return function (data, at) {
    if (!isObject(data)) return;
    this.describe(data, shape);
    for (const name of shared)
      if (Object.hasOwn(data, name))
        describeWithin(this, (data as Record<string, unknown>)[name], shape.properties[name]!);
    this.note('default', () => {
      for (const [name, part, value] of defaults) {
        const isFilled = value === undefined || Object.hasOwn(data, name);
        if (isFilled || this.shapesOf(data, name).some(({ accepts }) => !accepts(value))) continue;
        setOwn(data, name, structuredClone(value));
        const filled = (data as Record<string, unknown>)[name];
        this.judge(part, filled, atPart(at, data, name)).complete();
      }
    });
  };
}

/** The properties that several of the schemas describe that a schema combines, if they may contain objects. */
function sharedNames(schema: Schema): string[] {
  if (schema.allOf === undefined) return [];
  const { parts, properties } = shapeOf(schema);
  return Object.entries(properties)
    .filter(([, { types }]) => types?.some((type) => type === 'object' || type === 'array') ?? true)
    .map(([name]) => name)
    .filter((name) => parts.filter((part) => Object.hasOwn(part.properties, name)).length > 1);
}

/** Notes what all these schemas say about the objects inside before any of them judges these: one may lift a requirement. */
function describeWithin(verdict: Verdict, data: unknown, shape: Shape): void {
  if (Array.isArray(data)) {
    if (shape.items) for (const item of data) describeWithin(verdict, item, shape.items);
  } else if (isObject(data)) {
    verdict.describe(data, shape);
    for (const [name, part] of Object.entries(data))
      if (Object.hasOwn(shape.properties, name)) describeWithin(verdict, part, shape.properties[name]!);
  }
}

function isObject(data: unknown): data is object {
  return typeof data === 'object' && data !== null && !Array.isArray(data);
}

/** Creates the check of bytes, a file of a form or a whole body. In JSON, they are a text. */
function createBytes({ type, minLength = 0, maxLength = Infinity }: Schema): Check {
  return function (data, at) {
    const { source } = this.validation;
    const isText = source === 'json';
    const bytes = data instanceof UploadedFile ? data.bytes : data;
    if (isText ? !isOfType(data, type) : !(bytes instanceof Uint8Array))
      this.refuse(at, data, 'type', isText ? typeMessage(type ?? [], data, source) : 'must be a file');
    if (typeof bytes !== 'string' && !(bytes instanceof Uint8Array)) return;
    const unit = isText ? 'characters' : 'bytes';
    if (bytes.length < minLength)
      this.refuse(at, data, 'minLength', `must have at least ${minLength} ${unit}`, minLength);
    if (bytes.length > maxLength)
      this.refuse(at, data, 'maxLength', `must have at most ${maxLength} ${unit}`, maxLength);
  };
}

function createListed({ enum: values = [] }: Schema): Check {
  const message = `must be one of ${values.map(shown).join(', ')}`;
  return function (data, at) {
    const isListed =
      typeof data === 'object' || typeof data === 'bigint'
        ? values.some((value) => this.validation.numberOf(value) === this.validation.numberOf(data))
        : values.includes(data);
    if (!isListed) this.refuse(at, data, 'enum', message, values);
  };
}

function createContained({ contains, minContains = 1, maxContains = Infinity }: Schema): Check {
  return function (data, at) {
    if (!Array.isArray(data)) return;
    const count = data.filter((item, i) => this.judge(contains!, item, atPart(at, data, i)).isValid).length;
    const [rule, bound] = count < minContains ? ['minContains', minContains] : ['maxContains', maxContains];
    if (count < minContains || count > maxContains)
      this.refuse(at, data, rule, `has ${count} items of the form that ${bound} must have`, bound);
  };
}

function createNames({ propertyNames }: Schema): Check {
  return function (data, at) {
    if (!isObject(data)) return;
    for (const name of Object.keys(data)) {
      const [fault] = this.judge(propertyNames!, name, at).faults;
      if (fault === undefined) continue;
      const path = at.instancePath + pointerOf([name]);
      this.add({ path, rule: 'propertyNames', message: `has a name that ${fault.message}` });
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
  return function (data, at) {
    if (this.judge(not!, data, at).isValid) this.refuse(at, data, 'not', message);
  };
}

/** Creates the check of what no other keyword describes, of the schema and those that it combines. */
function createRest(schema: Schema, rule: 'unevaluatedItems' | 'unevaluatedProperties'): Check {
  const { [rule]: rest, ...others } = schema;
  return function (data, at) {
    if (typeof data !== 'object' || data === null) return;
    const isArray = Array.isArray(data);
    if (isArray !== (rule === 'unevaluatedItems')) return;
    for (const [key, part] of Object.entries(data) as [string, unknown][]) {
      if (evaluates(this, others, data, key, at)) continue;
      const place = atPart(at, data, key);
      if (isNothing(rest!)) this.refuse(place, part, rule, isArray ? 'is not allowed' : 'is unknown');
      else this.accept(this.judge(rest!, part, place));
    }
  };
}
