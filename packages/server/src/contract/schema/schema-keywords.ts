// Reads the keywords of a schema, and reports those that the server does not support.
import { isDeepStrictEqual } from 'node:util';
import type { ContractNode } from '../document/contract-node.js';
import { PatternError, patternOf } from './pattern.js';
import { isBig, type NumberForm, type TypeName } from './json-types.js';
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
const supported = [
  'type format enum const pattern uniqueItems required dependentRequired default nullable readOnly writeOnly $ref',
  ...[...Object.values(schemaKeywords).flat(), ...countKeywords, ...numericKeywords, ...annotations],
].join(' ');

/** Whether a keyword has no effect on validation. */
export function onlyDescribes(keyword: string): boolean {
  return annotations.includes(keyword) || keyword.startsWith('x-');
}

/** The context for reading keywords, besides the node of the schema. */
export interface KeywordContext {
  readonly use: Use;
  readonly types: readonly TypeName[] | undefined;
  readonly number: NumberForm | undefined;
  /** Normalizes a schema inside the one that is being read. */
  readonly normalize: (node: ContractNode) => Schema;
}

/** Reads all keywords of a schema but `type`. */
export function readKeywords(node: ContractNode, context: KeywordContext): Partial<MutableSchema> {
  node.allow(supported);
  for (const keyword of ['anyOf', 'oneOf', 'enum'])
    if ([node.at(keyword).value].flat().length === 0)
      node.at(keyword).fault('allows no value', 'List what it allows');
  return {
    ...readSchemas(node, context),
    ...readTexts(node, context),
    ...readNumbers(node, context),
    ...readValues(node, context),
    ...readRequired(node),
    ...(node.read('uniqueItems', 'boolean') === true && { uniqueItems: true }),
  };
}

/** Reads the schemas inside a schema. */
function readSchemas(node: ContractNode, { normalize }: KeywordContext): Partial<MutableSchema> {
  const { one, list, named } = schemaKeywords;
  const draft: Partial<MutableSchema> = {};
  for (const keyword of one) if (node.has(keyword)) draft[keyword] = normalize(node.at(keyword));
  for (const keyword of list) {
    const parts = node.list(keyword).map(normalize);
    if (parts.length > 0) draft[keyword] = parts;
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

function readTexts(node: ContractNode, { use, types }: KeywordContext): Partial<MutableSchema> {
  const pattern = node.read('pattern', 'string');
  const isUsable = pattern !== undefined && checkPattern(node.at('pattern'), pattern, use);
  const format = node.read('format', 'string') ?? '';
  const isChecked = textFormats.includes(format) && (types?.includes('string') ?? true);
  const [checked, ...formats] = numberFormats[types?.find((type) => type in numberFormats) ?? ''] ?? [];
  if (node.has('format') && !isChecked && ![...formats, ...freeFormats].includes(format))
    node
      .at('format')
      .warn(
        `the format ${format} is not checked${checked ? `: it is ${checked}` : ''}`,
        'Check it in the handler',
      );
  return { ...(isChecked && { format }), ...(isUsable && { pattern }) };
}

/** Reads the names of required properties. */
function readRequired(node: ContractNode): Partial<MutableSchema> {
  const fix = 'List the names of the required properties in the object that has them, next to properties';
  const required = new Set(node.texts('required', fix));
  const dependent = node
    .entries('dependentRequired')
    .map(([name]) => [name, node.at('dependentRequired').texts(name)] as const);
  return {
    ...(required.size > 0 && { required: [...required] }),
    ...(dependent.length > 0 && { dependentRequired: Object.fromEntries(dependent) }),
  };
}

/**
 * Reads counts, and the limits of numbers: exclusive ones in the form of OpenAPI 3.0, `true`, or of 3.1, a number.
 */
function readNumbers(node: ContractNode, { types, number }: KeywordContext): Partial<MutableSchema> {
  const limits: Partial<Record<(typeof numericKeywords | typeof countKeywords)[number], number>> = {};
  // The range of other integers is narrower in any case, and a bound beyond the range of the format has no effect.
  const isWide = types === undefined || isBig(number);
  const end = number === 'uint64' ? 2 ** 64 : 2 ** 63;
  for (const keyword of numericKeywords) {
    const isFlag = keyword.startsWith('ex') && typeof node.at(keyword).value === 'boolean';
    const value = isFlag ? undefined : node.read(keyword, 'number');
    if (value === undefined) continue;
    const isFactor = keyword === 'multipleOf';
    if (isFactor ? number !== 'double' : isWide && Math.abs(value) < end) checkExact(node.at(keyword), value);
    if (isFactor && value <= 0) node.at(keyword).fault('must be above 0', 'Write a positive number');
    const exclusive = keyword.replace(/^m/, 'exclusiveM') as keyof typeof limits;
    limits[node.at(exclusive).value === true ? exclusive : keyword] = value;
  }
  for (const keyword of countKeywords) {
    const value = node.read(keyword, 'number');
    if (value === undefined) continue;
    if (!Number.isSafeInteger(value) || value < 0)
      node.at(keyword).fault('must be a count', 'Write 0 or more, or leave it out');
    limits[keyword] = value;
  }
  return limits;
}

/** Reads the allowed values. */
function readValues(node: ContractNode, { number }: KeywordContext): Partial<MutableSchema> {
  const listed = node.list('enum');
  const values = node.has('const') ? [node.at('const')] : listed;
  if (listed.length > 0 && !listed.some(({ value }) => isDeepStrictEqual(value, values[0]!.value)))
    node.at('const').fault('is not in enum', 'Leave out one of both');
  for (const item of values) if (number !== 'double') checkExact(item, item.value);
  return values.length === 0 ? {} : { enum: [...new Set(values.map(({ value }) => value))] };
}

/** Checks an integer that the parser may have rounded. */
function checkExact(node: ContractNode, value: unknown): void {
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return;
  node.fault('is an integer that programs round', 'Leave the keyword out, and check it in the handler');
}

/** Checks a pattern, and returns whether it is applied. In responses, a pattern that cannot be matched is ignored. */
function checkPattern(node: ContractNode, pattern: string, use: Use): boolean {
  try {
    patternOf(pattern);
    return true;
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    const { message, fix } = error;
    const start = pattern.replace(/^(.{100}).+$/s, '$1…');
    if (use === 'response') node.warn(`${start} is not checked in responses: ${message}`, fix);
    else node.fault(`${start} is not supported: ${message}`, fix);
    return false;
  }
}
