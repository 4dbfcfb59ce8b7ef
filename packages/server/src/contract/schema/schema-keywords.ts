// Reads the keywords of a schema, and reports those that the server does not support.
import { PatternError, patternOf } from './pattern.js';
import type { ContractNode } from '../document/contract-node.js';
import { countKeywords, schemaKeywords, type MutableSchema, type Schema, type Use } from './schema.js';
import { isOfType, type TypeName } from './json-types.js';

const textFormats = 'date-time date time uuid email uri hostname ipv4 ipv6 byte password'.split(' ');
/** Formats that ask for nothing that a server could check. */
const freeFormats = ['password', 'binary'];
const numberFormats: Readonly<Record<string, readonly string[]>> = {
  integer: ['int32', 'int64'],
  number: ['float', 'double'],
};

/** The keywords that limit values of a type. */
const keywordsOf: Readonly<Partial<Record<TypeName, string>>> = {
  number: 'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf',
  string: 'minLength maxLength pattern',
  array: 'items minItems maxItems uniqueItems prefixItems contains minContains maxContains unevaluatedItems',
  object:
    'properties required additionalProperties minProperties maxProperties patternProperties propertyNames ' +
    'dependentRequired dependentSchemas unevaluatedProperties',
};
const otherKeywords =
  'type format enum const allOf anyOf oneOf not if then else default nullable readOnly writeOnly $ref';
/** Keywords that only describe. */
const annotations =
  'title description example examples externalDocs deprecated xml discriminator $comment $schema $defs $anchor ' +
  'definitions contentMediaType contentEncoding contentSchema';
/** Keywords that OpenAPI 3.0 does not have. */
const newer = (
  'prefixItems contains minContains maxContains unevaluatedItems patternProperties propertyNames dependentRequired ' +
  'dependentSchemas unevaluatedProperties if then else $anchor'
).split(' ');
/** Keywords of JSON Schema that the server does not support. */
const unsupported = ['$id', '$dynamicRef', '$dynamicAnchor'];
const known = [...Object.values(keywordsOf), otherKeywords, annotations, ...unsupported].join(' ');
/** Whether a keyword has no effect on validation. */
export function onlyDescribes(keyword: string): boolean {
  return annotations.split(' ').includes(keyword) || keyword.startsWith('x-');
}

/** Reports keywords that the server does not support. */
export function checkKeywords(node: ContractNode, is30: boolean): void {
  for (const name of Object.keys(node.value as object)) {
    if (unsupported.includes(name)) {
      node.at(name).fault(`${name} is not supported`, 'Refer to the schema as #/components/schemas/Name');
    } else if (is30 && newer.includes(name)) {
      node.at(name).fault(`OpenAPI 3.0 has no ${name}`, 'Write openapi: 3.1.0');
    }
  }
  node.allow(known);
}

/** The context for reading keywords, besides the node of the schema. */
export interface Context {
  readonly use: Use;
  readonly is30: boolean;
  readonly types: readonly TypeName[] | undefined;
  /** Normalizes a schema inside the one that is being read. */
  readonly normalize: (node: ContractNode) => Schema;
}

/** Reads all keywords of a schema but `type`. */
export function readKeywords(node: ContractNode, context: Context): Partial<MutableSchema> {
  warnWithoutEffect(node, context.types);
  checkMapping(node.at('discriminator'));
  checkContains(node);
  return {
    ...readSchemas(node, context),
    ...readTexts(node, context),
    ...readNumbers(node, context.is30),
    ...readValues(node),
    ...Object.fromEntries(countKeywords.flatMap((keyword) => readCount(node, keyword))),
    ...readRequired(node),
  };
}

/** Reads the schemas inside a schema. */
function readSchemas(node: ContractNode, { normalize }: Context): Partial<MutableSchema> {
  const { one, list, named } = schemaKeywords;
  const draft: Partial<MutableSchema> = {};
  for (const keyword of one) {
    const isUsed = node.has(keyword) && (node.has('if') || !['then', 'else'].includes(keyword));
    const part = node.at(keyword);
    if (keyword === 'additionalProperties' && isUsed && !part.isObject && typeof part.value !== 'boolean')
      part.fault(
        'must be true, false or a schema',
        'Write false, without quotes, to allow no other properties',
      );
    else if (isUsed) draft[keyword] = normalize(part);
  }
  for (const keyword of list) {
    const parts = node.list(keyword).map(normalize);
    if (parts.length > 0) draft[keyword] = parts;
    else if (node.has(keyword) && ['anyOf', 'oneOf'].includes(keyword))
      node.at(keyword).fault('allows no value', 'List the alternatives');
  }
  for (const keyword of named) {
    const schemas = node.entries(keyword).flatMap(([name, part]) => {
      if (keyword === 'patternProperties' && !checkPattern(part, name, 'request')) return [];
      const schema = normalize(part);
      const isAbsent = keyword === 'properties' && schema.refused;
      return [[name, isAbsent ? { refused: schema.refused } : schema] as const];
    });
    if (node.has(keyword)) draft[keyword] = Object.fromEntries(schemas);
  }
  return { ...draft, ...(node.flag('uniqueItems') === true && { uniqueItems: true }) };
}

/** Checks the references of a discriminator, which otherwise only describes. */
function checkMapping(discriminator: ContractNode): void {
  if (discriminator.value === undefined) return;
  discriminator.allow('propertyName mapping');
  discriminator.require('propertyName', 'Write the name of the property');
  for (const [, target] of discriminator.entries('mapping')) {
    if (typeof target.value === 'string') target.refer(target.value);
    else target.fault('must be a text', 'Write a reference, or the name of a schema');
  }
}

function readTexts(node: ContractNode, { use, types }: Context): Partial<MutableSchema> {
  const pattern = node.text('pattern');
  const isUsable = pattern !== undefined && checkPattern(node.at('pattern'), pattern, use);
  const format = node.text('format') ?? '';
  const isOfNumbers = types?.some((type) => numberFormats[type]?.includes(format));
  const isChecked = textFormats.includes(format) && (types?.includes('string') ?? true);
  if (node.has('format') && !isChecked && isOfNumbers !== true && !freeFormats.includes(format)) {
    const fix = 'Add a pattern, or check it in the handler';
    node.at('format').warn(`the format ${format} is not checked`, fix);
  }
  return { ...(isChecked && { format }), ...(isUsable && { pattern }) };
}

/** Reads the names of required properties. */
function readRequired(node: ContractNode): Partial<MutableSchema> {
  const namesIn = (owner: ContractNode, keyword: string) => {
    const fix = 'List the names of the required properties in the object that has them, next to properties';
    const names = owner.list(keyword, fix).flatMap((one) => {
      if (typeof one.value === 'string') return one.value;
      one.fault('must be a text', 'Write the name of a property');
      return [];
    });
    return [...new Set(names)];
  };
  const flag = node.at('required');
  const isFlag = typeof flag.value === 'boolean';
  if (isFlag)
    flag.warn('it has no effect here', 'List the name in required of the object that has the property');
  const required = isFlag ? [] : namesIn(node, 'required');
  const dependent = node
    .entries('dependentRequired')
    .map(([name]) => [name, namesIn(node.at('dependentRequired'), name)] as const);
  return {
    ...(required.length > 0 && { required }),
    ...(dependent.length > 0 && { dependentRequired: Object.fromEntries(dependent) }),
  };
}

/** Reads the limits of numbers. */
function readNumbers(node: ContractNode, is30: boolean): Partial<MutableSchema> {
  const types = [node.at('type').value].flat();
  const isInteger = types.includes('integer');
  // The range of other integers is narrower in any case.
  const isWide = types[0] === undefined || (isInteger && node.at('format').value === 'int64');
  const bound = (end: 'minimum' | 'maximum') => {
    const exclusive = end === 'minimum' ? 'exclusiveMinimum' : 'exclusiveMaximum';
    const own = node.number(end);
    if (own !== undefined && isWide) checkExact(node.at(end), own, true);
    const given = node.at(exclusive);
    if (given.value === undefined || given.value === false) return own === undefined ? {} : { [end]: own };
    if (is30 !== (given.value === true)) {
      const number = typeof given.value === 'number' ? given.value : (own ?? 'the bound');
      const [version, fix] = is30
        ? ['3.0', `Write ${end}: ${number}, and ${exclusive}: true next to it`]
        : ['3.1', `Write ${exclusive}: ${number} instead of ${end}`];
      given.fault(`${exclusive} has another form in OpenAPI ${version}`, fix);
      return {};
    }
    if (given.value === true) return own === undefined ? {} : { [exclusive]: own };
    const value = node.number(exclusive);
    if (value !== undefined && isWide) checkExact(given, value, true);
    return { ...(own !== undefined && { [end]: own }), ...(value !== undefined && { [exclusive]: value }) };
  };
  const multipleOf = node.number('multipleOf');
  if (multipleOf !== undefined && isInteger) checkExact(node.at('multipleOf'), multipleOf, false);
  const isAbove = multipleOf !== undefined && multipleOf > 0;
  if (node.has('multipleOf') && !isAbove)
    node.at('multipleOf').fault('must be above 0', 'Write a positive number');
  return { ...bound('minimum'), ...bound('maximum'), ...(isAbove && { multipleOf }) };
}

/** Reads the allowed values. */
function readValues(node: ContractNode): Partial<MutableSchema> {
  const isNumber = [node.at('type').value].flat().includes('number');
  const values = node.has('const') ? [node.at('const')] : node.list('enum');
  if (values.length === 0) {
    if (Array.isArray(node.at('enum').value))
      node.at('enum').fault('allows no value', 'List the allowed values');
    return {};
  }
  for (const one of values) if (typeof one.value === 'number' && !isNumber) checkExact(one, one.value, false);
  return { enum: [...new Set(values.map(({ value }) => value))] };
}

/** Checks that the values that a schema names have its type. */
export function checkValues(node: ContractNode, types: readonly TypeName[] | undefined): void {
  if (types === undefined) return;
  for (const one of node.list('enum').filter(({ value }) => !isOfType(value, types))) {
    const { value } = one;
    const isBare = typeof value === 'number' || typeof value === 'boolean';
    const quoted = isBare ? `the value: "${value}" in quotes is a text` : 'another value';
    one.warn(
      `no value of the type ${types.join(', ')} equals it`,
      `Write the type that clients send, or ${quoted}`,
    );
  }
}

/** Warns of keywords that say nothing about values of the given types. */
function warnWithoutEffect(node: ContractNode, types: readonly TypeName[] | undefined): void {
  if (types === undefined) return;
  for (const [type, keywords] of Object.entries(keywordsOf)) {
    if (types.includes(type as TypeName) || (type === 'number' && types.includes('integer'))) continue;
    // A keyword of another form is a fault.
    const isGiven = (one: string) =>
      node.has(one) && !(one === 'required' && !Array.isArray(node.at(one).value));
    for (const name of keywords.split(' ').filter(isGiven)) {
      node
        .at(name)
        .warn(
          `${name} has no effect on the type ${types.join(', ')}`,
          'Leave it out, or write the type that clients send',
        );
    }
  }
}

/** Refuses counts of items that no array has. */
function checkContains(node: ContractNode): void {
  const [least = 1, most = Infinity] = [node.at('minContains').value, node.at('maxContains').value] as (
    number | undefined
  )[];
  if (node.has('contains') && least > most)
    node
      .at('maxContains')
      .fault(`is less than minContains, ${least}`, 'Write a greater number, or leave it out');
}

function readCount(node: ContractNode, keyword: string): [string, number][] {
  const value = node.number(keyword);
  if (value === undefined) return [];
  if (!Number.isSafeInteger(value) || value < 0)
    node
      .at(keyword)
      .fault('must be a count', 'Leave it out, or write 0 or more: values beyond that are then refused');
  return node.has('contains') || !keyword.endsWith('Contains') ? [[keyword, value]] : [];
}

/** Checks an integer that the parser may have rounded; bounds beyond the range of int64 have no effect in any case. */
function checkExact(node: ContractNode, value: number, isBound: boolean): void {
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return;
  if (isBound && Math.abs(value) >= 2 ** 63) return;
  node.fault(
    'is an integer that programs round',
    'Leave the keyword out, and check the value in the handler',
  );
}

/** Checks a pattern, and returns whether it is applied. In responses, a pattern that cannot be matched is ignored. */
function checkPattern(node: ContractNode, pattern: string, use: Use): boolean {
  try {
    patternOf(pattern);
    return true;
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    const { message, fix } = error;
    if (use === 'response') node.warn(`${pattern} is not checked in responses: ${message}`, fix);
    else node.fault(`${pattern} is not supported: ${message}`, fix);
    return false;
  }
}
