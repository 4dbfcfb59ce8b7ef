// Reads the keywords of a schema, and reports those that the server does not support.
import { isFast } from './pattern.js';
import type { Place } from './place.js';
import { countKeywords, isOfRequests, schemaKeywords, type Draft, type Schema, type Use } from './schema.js';
import { absent, typeOf, type TypeName } from './shape.js';

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
  'title description example examples externalDocs deprecated xml discriminator $comment $schema $defs ' +
  'definitions contentMediaType contentEncoding contentSchema';
/** Keywords that OpenAPI 3.0 does not have. */
const newer = (
  'prefixItems contains minContains maxContains unevaluatedItems patternProperties propertyNames dependentRequired ' +
  'dependentSchemas unevaluatedProperties if then else'
).split(' ');
/** Keywords of JSON Schema that the server does not support. */
const unsupported = ['$id', '$anchor', '$dynamicRef', '$dynamicAnchor'];
const known = [...Object.values(keywordsOf), otherKeywords, annotations, ...unsupported].join(' ');

/** Whether a keyword has no effect on validation. */
export function onlyDescribes(keyword: string): boolean {
  return annotations.split(' ').includes(keyword) || keyword.startsWith('x-');
}

/** Reports keywords that the server does not support. */
export function checkKeywords(place: Place, is30: boolean): void {
  for (const name of Object.keys(place.value as object)) {
    if (unsupported.includes(name)) {
      place.at(name).fault(`${name} is not supported`, 'Refer to the schema as #/components/schemas/Name');
    } else if (is30 && newer.includes(name)) {
      place.at(name).fault(`OpenAPI 3.0 has no ${name}`, 'Write openapi: 3.1.0');
    }
  }
  place.allow(known);
}

/** Refuses the one name that JavaScript cannot handle like any other. */
export function checkName(place: Place, name: string): void {
  if (name === '__proto__') place.fault('the name __proto__ is not supported', 'Write another name');
}

/** What a reader of keywords needs beside the place of the schema. */
export interface Context {
  readonly use: Use;
  readonly is30: boolean;
  readonly types: readonly TypeName[] | undefined;
  /** Normalizes a schema inside the one that is being read. */
  readonly normalize: (place: Place) => Schema;
}

/** Reads all keywords of a schema but `type`. */
export function readKeywords(place: Place, context: Context): Partial<Draft> {
  warnWithoutEffect(place, context.types);
  checkMapping(place.at('discriminator'));
  return {
    ...readSchemas(place, context),
    ...readTexts(place, context),
    ...readNumbers(place, context.is30),
    ...readValues(place),
    ...Object.fromEntries(countKeywords.flatMap((keyword) => readCount(place, keyword))),
    ...readRequired(place),
  };
}

/** Reads the schemas inside a schema. */
function readSchemas(place: Place, { use, normalize }: Context): Partial<Draft> {
  const { one, list, named } = schemaKeywords;
  const draft: Partial<Draft> = {};
  for (const keyword of one) {
    const isUsed = place.has(keyword) && (place.has('if') || !['then', 'else'].includes(keyword));
    const part = place.at(keyword);
    if (keyword === 'additionalProperties' && isUsed && !part.isObject && typeof part.value !== 'boolean')
      part.fault('must be true, false or a schema', 'Write false to allow no other properties');
    else if (isUsed) draft[keyword] = normalize(part);
  }
  for (const keyword of list) {
    const parts = place.list(keyword).map(normalize);
    if (parts.length > 0) draft[keyword] = parts;
    else if (place.has(keyword) && ['anyOf', 'oneOf'].includes(keyword))
      place.at(keyword).fault('allows no value', 'List the alternatives');
  }
  for (const keyword of named) {
    const schemas = place.entries(keyword).map(([name, part]) => {
      checkName(part, name);
      if (keyword === 'patternProperties') checkPattern(part, name, use);
      const schema = normalize(part);
      const isAbsent = keyword === 'properties' && schema.refused;
      return [name, isAbsent ? { refused: schema.refused, shape: absent } : schema] as const;
    });
    if (place.has(keyword)) draft[keyword] = Object.fromEntries(schemas);
  }
  const unique = place.flag('uniqueItems') === true;
  // Of requests: Ajv compares all items in pairs, unless the schema of the items itself says that they are texts.
  const mayBeArray = !place.has('type') || [place.at('type').value].flat().includes('array');
  if (unique && mayBeArray && isOfRequests(use) && draft.items?.type?.join() !== 'string') {
    const fix = 'Leave it out, and compare the items in the handler';
    place.at('uniqueItems').fault('uniqueItems is supported only for items of type string', fix);
  }
  return { ...draft, ...(unique && { uniqueItems: true }) };
}

/** Checks what a discriminator refers to: by itself it only describes. */
function checkMapping(discriminator: Place): void {
  if (discriminator.value === undefined) return;
  discriminator.allow('propertyName mapping');
  discriminator.require('propertyName', 'Write the name of the property');
  for (const [, target] of discriminator.entries('mapping')) {
    if (typeof target.value === 'string') target.refer(target.value);
    else target.fault('must be a text', 'Write a reference, or the name of a schema');
  }
}

function readTexts(place: Place, { use, types }: Context): Partial<Draft> {
  const pattern = place.text('pattern');
  const isUsable =
    pattern !== undefined && (use === 'response' || checkPattern(place.at('pattern'), pattern, use));
  const format = place.text('format') ?? '';
  const isOfNumbers = types?.some((type) => numberFormats[type]?.includes(format));
  const isChecked = textFormats.includes(format) && (types?.includes('string') ?? true);
  if (place.has('format') && !isChecked && isOfNumbers !== true && !freeFormats.includes(format)) {
    const fix = 'Add a pattern, or check it in the handler';
    place.at('format').warn(`the format ${format} is not checked`, fix);
  }
  return { ...(isChecked && { format }), ...(isUsable && { pattern }) };
}

/** Reads the names of properties that must be there. */
function readRequired(place: Place): Partial<Draft> {
  const namesIn = (owner: Place, keyword: string) => {
    const fix = 'List the names of the required properties, next to properties';
    const names = owner.list(keyword, fix).flatMap((one) => {
      if (typeof one.value === 'string') return one.value;
      one.fault('must be a text', 'Write the name of a property');
      return [];
    });
    return [...new Set(names)];
  };
  const required = namesIn(place, 'required');
  const dependent = place
    .entries('dependentRequired')
    .map(([name]) => [name, namesIn(place.at('dependentRequired'), name)] as const);
  return {
    ...(required.length > 0 && { required }),
    ...(dependent.length > 0 && { dependentRequired: Object.fromEntries(dependent) }),
  };
}

/** Reads what limits numbers. */
function readNumbers(place: Place, is30: boolean): Partial<Draft> {
  const types = [place.at('type').value].flat();
  const isInteger = types.includes('integer');
  // The range of other integers is narrower in any case.
  const isWide = types[0] === undefined || (isInteger && place.at('format').value === 'int64');
  const bound = (end: 'minimum' | 'maximum') => {
    const exclusive = end === 'minimum' ? 'exclusiveMinimum' : 'exclusiveMaximum';
    const own = place.number(end);
    if (own !== undefined && isWide) checkExact(place.at(end), own, true);
    const given = place.at(exclusive);
    if (given.value === undefined || given.value === false) return own === undefined ? {} : { [end]: own };
    if (is30 !== (given.value === true)) {
      const fix = is30 ? `Write ${exclusive}: true next to ${end}` : 'Write the bound itself, a number';
      given.fault(`${exclusive} has another form in this version of OpenAPI`, fix);
      return {};
    }
    if (given.value === true) return own === undefined ? {} : { [exclusive]: own };
    const value = place.number(exclusive);
    if (value !== undefined && isWide) checkExact(given, value, true);
    return { ...(own !== undefined && { [end]: own }), ...(value !== undefined && { [exclusive]: value }) };
  };
  const multipleOf = place.number('multipleOf');
  if (multipleOf !== undefined && isInteger) checkExact(place.at('multipleOf'), multipleOf, false);
  if (multipleOf !== undefined && multipleOf <= 0) {
    place.at('multipleOf').fault('must be above 0', 'Write a positive number');
  }
  return { ...bound('minimum'), ...bound('maximum'), ...(multipleOf !== undefined && { multipleOf }) };
}

/** Reads the only values that are allowed. */
function readValues(place: Place): Partial<Draft> {
  const isNumber = [place.at('type').value].flat().includes('number');
  const values = place.has('const') ? [place.at('const')] : place.list('enum');
  if (values.length === 0 && !place.has('enum')) return {};
  if (values.length === 0) place.at('enum').fault('allows no value', 'List the allowed values');
  for (const one of values) if (typeof one.value === 'number' && !isNumber) checkExact(one, one.value, false);
  return { enum: [...new Set(values.map(({ value }) => value))] };
}

/** Checks that the values that a schema names have its type. */
export function checkValues(place: Place, types: readonly TypeName[] | undefined): void {
  if (types === undefined) return;
  const isWrong = (value: unknown) => {
    return !types.includes(typeOf(value)) && !(Number.isSafeInteger(value) && types.includes('integer'));
  };
  for (const one of place.list('enum').filter(({ value }) => isWrong(value)))
    one.warn(
      `no value of the type ${types.join(', ')} equals it`,
      'Write a text in quotes, or correct the type',
    );
  if (place.has('default') && isWrong(place.at('default').value))
    place
      .at('default')
      .fault(`the default is not of the type ${types.join(', ')}`, 'Write a value that the schema allows');
}

/** Warns of keywords that say nothing about values of the given types. */
function warnWithoutEffect(place: Place, types: readonly TypeName[] | undefined): void {
  if (types === undefined) return;
  for (const [type, keywords] of Object.entries(keywordsOf)) {
    if (types.includes(type as TypeName) || (type === 'number' && types.includes('integer'))) continue;
    for (const name of keywords.split(' ').filter((one) => place.has(one))) {
      place
        .at(name)
        .warn(`${name} has no effect on the type ${types.join(', ')}`, 'Leave it out, or correct the type');
    }
  }
}

function readCount(place: Place, keyword: string): [string, number][] {
  const value = place.number(keyword);
  if (value === undefined) return [];
  if (!Number.isSafeInteger(value) || value < 0)
    place.at(keyword).fault('must be a count', 'Write 0 or more');
  return place.has('contains') || !keyword.endsWith('Contains') ? [[keyword, value]] : [];
}

/** Checks an integer that the parser may have rounded; bounds beyond the range of int64 have no effect in any case. */
function checkExact(place: Place, value: number, isBound: boolean): void {
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return;
  if (isBound && Math.abs(value) >= 2 ** 63) return;
  place.fault(
    'is an integer that programs round',
    'Leave it out: the format gives the range, and the handler can check more',
  );
}

/** Checks a pattern that is applied to requests, or to the server's errors; returns whether it is one. */
function checkPattern(place: Place, pattern: string, use: Use): boolean {
  try {
    new RegExp(pattern, 'u');
  } catch (error) {
    place.fault((error as Error).message, 'Write a regular expression of ECMAScript, with the flag u');
    return false;
  }
  if (!isOfRequests(use) || isFast(pattern)) return true;
  place.fault(
    `${pattern} could take too long to match`,
    'Begin it with ^, repeat at most one part without a limit, limit the others as in {1,20}, ' +
      'and repeat no part that can match in several ways',
  );
  return true;
}
