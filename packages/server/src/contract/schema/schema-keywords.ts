// Reads the keywords of a schema, and reports those that the server does not support.
import type { ContractNode } from '../document/contract-node.js';
import type { TypeName } from './json-types.js';
import { PatternError, patternOf } from './pattern.js';
import {
  countKeywords,
  numericKeywords,
  schemaKeywords,
  type MutableSchema,
  type Schema,
  type Use,
} from './schema.js';

const textFormats = 'date-time date time uuid email uri hostname ipv4 ipv6 byte password'.split(' ');
/** Formats that ask for nothing that a server could check. */
const freeFormats = ['password', 'binary'];
/** The formats of numbers, with what is checked of any other. */
const numberFormats: Readonly<Record<string, readonly [checked: string, ...formats: string[]]>> = {
  integer: ['any integer from -9007199254740991 to 9007199254740991', 'int32', 'uint32', 'int64', 'uint64'],
  number: ['any number', 'float', 'double'],
};

/** Keywords that only describe. */
const annotations = (
  'title description example examples externalDocs deprecated xml discriminator $comment $schema $defs $anchor ' +
  'definitions contentMediaType contentEncoding contentSchema'
).split(' ');
/** Keywords of JSON Schema that the server does not support. */
const unsupported = ['$id', '$dynamicRef', '$dynamicAnchor'];
const supported = [
  'type format enum const pattern uniqueItems required dependentRequired default nullable readOnly writeOnly $ref',
  ...[...Object.values(schemaKeywords).flat(), ...countKeywords, ...numericKeywords, ...annotations],
  ...unsupported,
].join(' ');

/** Whether a keyword has no effect on validation. */
export function onlyDescribes(keyword: string): boolean {
  return annotations.includes(keyword) || keyword.startsWith('x-');
}

/** Reports keywords that the server does not support. */
export function checkKeywords(node: ContractNode): void {
  for (const name of unsupported.filter((keyword) => node.has(keyword)))
    node.at(name).fault(`${name} is not supported`, 'Refer to the schema as #/components/schemas/Name');
  node.allow(supported);
}

/** The context for reading keywords, besides the node of the schema. */
export interface KeywordContext {
  readonly use: Use;
  readonly types: readonly TypeName[] | undefined;
  /** Normalizes a schema inside the one that is being read. */
  readonly normalize: (node: ContractNode) => Schema;
}

/** Reads all keywords of a schema but `type`. */
export function readKeywords(node: ContractNode, context: KeywordContext): Partial<MutableSchema> {
  return {
    ...readSchemas(node, context),
    ...readTexts(node, context),
    ...readNumbers(node),
    ...readValues(node),
    ...readCounts(node),
    ...readRequired(node),
    ...(node.flag('uniqueItems') === true && { uniqueItems: true }),
  };
}

/** Reads the schemas inside a schema. */
function readSchemas(node: ContractNode, { normalize }: KeywordContext): Partial<MutableSchema> {
  const { one, list, named } = schemaKeywords;
  const draft: Partial<MutableSchema> = {};
  for (const keyword of one) {
    if (node.has(keyword) && (node.has('if') || !['then', 'else'].includes(keyword)))
      draft[keyword] = normalize(node.at(keyword));
  }
  for (const keyword of list) {
    const parts = node.list(keyword).map(normalize);
    if (parts.length > 0) draft[keyword] = parts;
    else if (node.has(keyword) && ['anyOf', 'oneOf'].includes(keyword))
      node.at(keyword).fault('allows no value', 'List the alternatives');
  }
  for (const keyword of named) {
    const parts = node
      .entries(keyword)
      .filter(([name, part]) => keyword !== 'patternProperties' || checkPattern(part, name, 'request'))
      .map(([name, part]) => [name, normalize(part)] as const);
    if (node.has(keyword)) draft[keyword] = Object.fromEntries(parts);
  }
  return draft;
}

/** Reads a discriminator: the name of its property, and the reference of each value that it maps. */
export function readDiscriminator(node: ContractNode) {
  const discriminator = node.at('discriminator');
  if (discriminator.value === undefined) return undefined;
  discriminator.allow('propertyName mapping');
  discriminator.require('propertyName', 'Write the name of the property');
  const mapping = discriminator.entries('mapping').flatMap(([value, target]) => {
    if (typeof target.value === 'string') return [[value, target.refer(target.value)] as const];
    target.fault('must be a text', 'Write a reference, or the name of a schema');
    return [];
  });
  return { name: discriminator.text('propertyName'), mapping };
}

function readTexts(node: ContractNode, { use, types }: KeywordContext): Partial<MutableSchema> {
  const pattern = node.text('pattern');
  const isUsable = pattern !== undefined && checkPattern(node.at('pattern'), pattern, use);
  const format = node.text('format') ?? '';
  const isChecked = textFormats.includes(format) && (types?.includes('string') ?? true);
  const [checked, ...known] = numberFormats[types?.find((type) => type in numberFormats) ?? ''] ?? [''];
  if (node.has('format') && !isChecked && ![...known, ...freeFormats].includes(format))
    node
      .at('format')
      .warn(
        `the format ${format} is not checked${checked === '' ? '' : `: it is ${checked}`}`,
        `${checked === '' ? 'Add a pattern' : 'Write minimum and maximum'}, or check it in the handler`,
      );
  return { ...(isChecked && { format }), ...(isUsable && { pattern }) };
}

/** Reads the names of required properties. */
function readRequired(node: ContractNode): Partial<MutableSchema> {
  const namesIn = (owner: ContractNode, keyword: string) => {
    const fix = 'List the names of the required properties in the object that has them, next to properties';
    const names = owner.list(keyword, fix).flatMap((item) => {
      if (typeof item.value === 'string') return item.value;
      item.fault('must be a text', 'Write the name of a property');
      return [];
    });
    return [...new Set(names)];
  };
  const required = namesIn(node, 'required');
  const dependent = node
    .entries('dependentRequired')
    .map(([name]) => [name, namesIn(node.at('dependentRequired'), name)] as const);
  return {
    ...(required.length > 0 && { required }),
    ...(dependent.length > 0 && { dependentRequired: Object.fromEntries(dependent) }),
  };
}

/** Reads the limits of numbers: exclusive ones in the form of OpenAPI 3.0, `true`, or of 3.1, a number. */
function readNumbers(node: ContractNode): Partial<MutableSchema> {
  const types = [node.at('type').value].flat();
  const isInteger = types.includes('integer');
  // The range of other integers is narrower in any case.
  const format = node.scalar('format') ?? '';
  const isWide = types[0] === undefined || (isInteger && /^u?int64$/.test(format));
  const end64 = format === 'uint64' ? 2 ** 64 : 2 ** 63;
  const limits: Partial<Record<(typeof numericKeywords)[number], number>> = {};
  for (const keyword of numericKeywords) {
    const isFlag = keyword.startsWith('ex') && typeof node.at(keyword).value === 'boolean';
    const value = isFlag ? undefined : node.number(keyword);
    if (value === undefined) continue;
    const isFactor = keyword === 'multipleOf';
    // A bound beyond the range of the format has no effect.
    if (isFactor ? isInteger : isWide && Math.abs(value) < end64) checkExact(node.at(keyword), value);
    if (isFactor && value <= 0) node.at(keyword).fault('must be above 0', 'Write a positive number');
    const exclusive = keyword.replace(/^m/, 'exclusiveM') as keyof typeof limits;
    limits[node.at(exclusive).value === true ? exclusive : keyword] = value;
  }
  return limits;
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
  for (const item of values) if (typeof item.value === 'number' && !isNumber) checkExact(item, item.value);
  return { enum: [...new Set(values.map(({ value }) => value))] };
}

/** Reads the counts, and refuses those of items that no array has. */
function readCounts(node: ContractNode): Partial<MutableSchema> {
  const counts: Partial<Record<(typeof countKeywords)[number], number>> = {};
  for (const keyword of countKeywords) {
    const value = node.number(keyword);
    if (value === undefined) continue;
    if (!Number.isSafeInteger(value) || value < 0)
      node
        .at(keyword)
        .fault('must be a count', 'Leave it out, or write 0 or more: values beyond that are then refused');
    if (node.has('contains') || !keyword.endsWith('Contains')) counts[keyword] = value;
  }
  return counts;
}

/** Checks an integer that the parser may have rounded. */
function checkExact(node: ContractNode, value: number): void {
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return;
  node.fault(
    'is an integer that programs round',
    'Leave the keyword out, and check the value in the handler',
  );
}

/** The maximum length of a pattern in a message, in characters. */
const shownLength = 100;

/** Checks a pattern, and returns whether it is applied. In responses, a pattern that cannot be matched is ignored. */
function checkPattern(node: ContractNode, pattern: string, use: Use): boolean {
  try {
    patternOf(pattern);
    return true;
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    const { message, fix } = error;
    const start = pattern.length > shownLength ? `${pattern.slice(0, shownLength)}…` : pattern;
    if (use === 'response') node.warn(`${start} is not checked in responses: ${message}`, fix);
    else node.fault(`${start} is not supported: ${message}`, fix);
    return false;
  }
}
