// The checks of each keyword: Ajv's for what concerns a value alone, and ours for what leads to other schemas.
import { Ajv, type ValidateFunction } from 'ajv';
import { pointerOf } from '../../../contract/document/finding.js';
import { UploadedFile } from '../../../contract/raw-body.js';
import { isOfType } from '../../../contract/schema/json-types.js';
import { patternOf } from '../../../contract/schema/pattern.js';
import { combiningKeywords, isAnything, partsOf, type Schema } from '../../../contract/schema/schema.js';
import { absent, propertyOf, propertyShape, shapeOf } from '../../../contract/schema/shape.js';
import { createChoice } from './choice.js';
import { messageOf, shown, typeMessage } from './fault-messages.js';
import { addTextFormats } from './formats.js';
import { isObject, pathOf, type Check, type Plan } from './judge.js';
import { createNumericCheck, isNumeric } from './numbers.js';

/** The keywords that Ajv checks, by itself or with a type. */
const plainKeywords = [
  ...(['format', 'pattern', 'minLength', 'maxLength'] as const),
  ...(['minItems', 'maxItems', 'minProperties', 'maxProperties'] as const),
];

const ajv = new Ajv({
  allErrors: true,
  // The normal form is valid; compiling the meta-schema would delay the start.
  meta: false,
  validateSchema: false,
  // Parts of a composition may leave the type to another part.
  strictTypes: false,
  code: { regExp: Object.assign(patternOf, { code: 'patternOf' }) },
});
addTextFormats(ajv);

/** The functions of Ajv by their schemas: a contract has few different ones. */
const compiled = new Map<string, ValidateFunction>();

/** Creates the check by Ajv; none if it has nothing to check. */
function createPlain(schema: Schema): Check[] {
  if (schema.binary) return [];
  const keywords = plainKeywords.filter((keyword) => schema[keyword] !== undefined);
  const plain = {
    ...(schema.type !== undefined && !isNumeric(schema) && { type: schema.type }),
    ...Object.fromEntries(keywords.map((keyword) => [keyword, schema[keyword]])),
  };
  const text = JSON.stringify(plain);
  if (text === '{}') return [];
  const validate = compiled.get(text) ?? ajv.compile(plain);
  compiled.set(text, validate);
  return [
    (judge, data, at) => {
      if (validate(data)) return;
      for (const error of validate.errors!) {
        const expected: unknown = schema[error.keyword as keyof Schema];
        judge.refuse(at, data, error.keyword, messageOf(error, expected, data, judge.source), expected);
      }
    },
  ];
}

/** Creates the checks of our keywords, in the order in which they run. */
const ownKeywords: { readonly [Keyword in keyof Schema]?: (schema: Schema) => Check } = {
  required: createRequired,
  dependentRequired: createRequired,
  refused:
    ({ refused }) =>
    (judge, data, at) => {
      judge.refuse(at, data, 'readOnly', `is ${refused!}: leave it out`);
    },
  binary: createBytes,
  enum: createListed,
  uniqueItems: () => (judge, data, at) => {
    if (!Array.isArray(data)) return;
    const numbers = new Set(data.map((item) => judge.numberOf(item)));
    if (numbers.size < data.length) judge.refuse(at, data, 'uniqueItems', 'must not contain equal items');
  },
  contains: createContained,
  propertyNames:
    ({ propertyNames }) =>
    (judge, data, at) => {
      if (!isObject(data)) return;
      for (const name of Object.keys(data)) {
        const [fault] = judge.faultsOf(propertyNames!, name, at);
        if (fault === undefined) continue;
        const path = pathOf(at) + pointerOf([name]);
        judge.add({ path, rule: 'propertyNames', message: `has a name that ${fault.message}` });
      }
    },
  not: createExcluded,
};

/** Prepares a schema, but not yet those inside. */
function createPlan(schema: Schema): Plan {
  const own = Object.entries(ownKeywords).filter(
    ([keyword]) => schema[keyword as keyof Schema] !== undefined,
  );
  const choices = (['anyOf', 'oneOf'] as const).flatMap((keyword) => {
    const alternatives = schema[keyword];
    return alternatives === undefined ? [] : [createChoice(keyword, alternatives)];
  });
  const defaults = Object.entries(schema.properties ?? {}).map(
    ([name, part]) => [name, propertyShape(part).default] as const,
  );
  return {
    checks: [
      ...own.map(([, create]) => create(schema)),
      ...createPlain(schema),
      ...(isNumeric(schema) ? [createNumericCheck(schema)] : []),
      ...choices.map(({ check }) => check),
    ],
    isAlone: partsOf(schema, combiningKeywords).length === 0,
    choices: choices.map(({ choose }) => choose),
    defaults: defaults.filter(([, value]) => value !== undefined),
  };
}

const plans = new WeakMap<Schema, Plan>();

/** Returns the plan of a schema, which is made when it is first needed. */
export function planOf(schema: Schema): Plan {
  let plan = plans.get(schema);
  if (plan === undefined) plans.set(schema, (plan = createPlan(schema)));
  return plan;
}

/** Creates the check of properties that are missing, unless a schema says that the object must not have them. */
function createRequired({ required = [], dependentRequired = {} }: Schema): Check {
  const dependent = Object.entries(dependentRequired);
  return (judge, data, at, together) => {
    if (!isObject(data)) return;
    const others = dependent.flatMap(([name, names]) => (Object.hasOwn(data, name) ? names : []));
    for (const name of others.length === 0 ? required : [...required, ...others])
      if (!Object.hasOwn(data, name) && !together.some((schema) => isAbsent(schema, name)))
        judge.add({ path: pathOf(at) + pointerOf([name]), rule: 'required', message: 'is missing' });
  };
}

function isAbsent(schema: Schema, name: string): boolean {
  return propertyOf(shapeOf(schema), name) === absent;
}

/** Creates the check of bytes, a file of a form or a whole body. In JSON, they are a text. */
function createBytes({ type, minLength = 0, maxLength = Infinity }: Schema): Check {
  return (judge, data, at) => {
    const isText = judge.source === 'json';
    const bytes = data instanceof UploadedFile ? data.bytes : data;
    if (isText ? !isOfType(data, type) : !(bytes instanceof Uint8Array))
      judge.refuse(at, data, 'type', isText ? typeMessage(type ?? [], data, 'json') : 'must be a file');
    if (typeof bytes !== 'string' && !(bytes instanceof Uint8Array)) return;
    const unit = isText ? 'characters' : 'bytes';
    if (bytes.length < minLength)
      judge.refuse(at, data, 'minLength', `must have at least ${minLength} ${unit}`, minLength);
    if (bytes.length > maxLength)
      judge.refuse(at, data, 'maxLength', `must have at most ${maxLength} ${unit}`, maxLength);
  };
}

function createListed({ enum: values = [] }: Schema): Check {
  const message = `must be one of ${values.map(shown).join(', ')}`;
  return (judge, data, at) => {
    const isListed =
      typeof data === 'object' || typeof data === 'bigint'
        ? values.some((value) => judge.numberOf(value) === judge.numberOf(data))
        : values.includes(data);
    if (!isListed) judge.refuse(at, data, 'enum', message, values);
  };
}

function createContained({ contains, minContains = 1, maxContains = Infinity }: Schema): Check {
  return (judge, data, at) => {
    if (!Array.isArray(data)) return;
    const count = data.filter((item, i) => {
      const place = { owner: data, key: String(i), outer: at };
      return judge.faultsOf(contains!, item, place).length === 0;
    }).length;
    const [rule, bound] = count < minContains ? ['minContains', minContains] : ['maxContains', maxContains];
    if (count < minContains || count > maxContains)
      judge.refuse(at, data, rule, `has ${count} items of the form that ${bound} must have`, bound);
  };
}

function createExcluded({ not }: Schema): Check {
  const { enum: values, required, ...others } = not!;
  const isShort = Object.keys(others).length === 0;
  const message = isAnything(not!)
    ? 'is not allowed'
    : isShort && values !== undefined
      ? `must not be ${values.map(shown).join(' or ')}`
      : isShort && required !== undefined
        ? `must not have ${required.join(' and ')}${required.length > 1 ? ' together' : ''}`
        : 'is of a form that the contract excludes';
  return (judge, data, at) => {
    if (judge.faultsOf(not!, data, at).length === 0) judge.refuse(at, data, 'not', message);
  };
}
