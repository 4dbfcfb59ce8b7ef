// Reads request bodies: JSON, forms, texts and bytes.
import type { ContractNode } from './document/contract-node.js';
import { isJson, isRange, mostSpecific, parseMediaType } from './media-type.js';
import { checkReadable, plain, textFix, type TextForm } from './parameters.js';
import { readContent, type Content } from './responses.js';
import type { Schemas } from './schema/schema-normalizer.js';
import { propertyOf, shapeOf, type Shape } from './schema/shape.js';

/** The format of a body: `form` is application/x-www-form-urlencoded, and `multipart` is multipart/form-data. */
export type BodyFormat = 'json' | 'form' | 'multipart' | 'text' | 'bytes';

/** A field of a form. */
export interface Field extends TextForm {
  readonly name: string;
}

/** A body of one of the media types of an operation. */
export interface BodyContent extends Content {
  readonly format: BodyFormat;
  /** Of a form: the fields that its schema or `encoding` names. */
  readonly fields: readonly Field[];
  /** Of a form: the notation of all other fields. */
  readonly otherField: TextForm;
}

/** A request body in the normal form. */
export interface Body {
  readonly required: boolean;
  readonly contents: readonly BodyContent[];
}

/** The media types of a body, as messages name them. */
export function acceptedTypes({ contents }: Body): string {
  const names = contents.map(({ name, range, format }) =>
    isRange(range) && format === 'json' ? 'application/json' : name,
  );
  return [...new Set(names)].join(' or ');
}

/** Returns the function that finds the content for a Content-Type; a range that is JSON includes only types of JSON. */
export function contentFinder<Entry extends BodyContent>(
  contents: readonly Entry[],
): (contentType: string) => Entry | undefined {
  const exact = new Map(contents.map((content) => [content.name, content]));
  return (contentType) => {
    const known = exact.get(contentType);
    if (known !== undefined) return known;
    const type = parseMediaType(contentType);
    const possible = contents.filter(({ format }) => format !== 'json' || isJson(type.type));
    return mostSpecific(possible, type);
  };
}

/** Reads the body of an operation; undefined if it has none that is served. */
export function readBody(node: ContractNode, method: string, schemas: Schemas, is30: boolean) {
  if (!node.has('requestBody')) return undefined;
  const given = node.at('requestBody');
  if (method === 'get' || method === 'head' || (method === 'delete' && is30)) {
    const fix = 'Write parameters, or POST with a path of its own; openapi: 3.1.0 allows a body of DELETE';
    const verb = method.toUpperCase();
    if (is30) given.warn(`OpenAPI 3.0 ignores a body of ${verb}: it is not read`, fix);
    else given.fault(`a body is not supported for ${verb}`, fix);
    return undefined;
  }
  const body = given.target('requestBodies');
  body.allow('content! description required');
  const all = readContent(body, schemas, 'request');
  const content = body.at('content');
  if (content.isObject && content.names.length === 0)
    content.fault('has no media type', 'Write application/json');
  const contents = all.flatMap((one) => readFormat(one, schemas, is30) ?? []);
  const served = new Set(contents.map(({ name }) => name));
  const names = all.flatMap(({ name }) => (served.has(name) ? [] : [name])).join(', ');
  const formFix = 'Write multipart/form-data with type: object, and a property for each field';
  const fix = /form|^multipart/.test(names) ? formFix : textFix;
  if (names !== '' && contents.length === 0) content.fault(`${names} is not supported`, fix);
  else if (names !== '') content.warn(`${names} is refused`, fix);
  return { required: body.read('required', 'boolean') === true, contents } satisfies Body;
}

/** Returns the format of bodies of a media type; undefined if they cannot be served. */
function readFormat(given: Content, schemas: Schemas, is30: boolean): BodyContent | undefined {
  const { range, node } = given;
  const schemaNode = node.at('schema');
  const none = { fields: [], otherField: plain };
  if (range.type.startsWith('multipart/') && range.type !== 'multipart/form-data') return undefined;
  const isForm = range.type === 'application/x-www-form-urlencoded';
  if (isForm || range.type === 'multipart/form-data') {
    const format = isForm ? 'form' : 'multipart';
    const schema = node.has('schema') ? schemas.normalize(schemaNode, 'request') : given.schema;
    if (shapeOf(schema).types?.includes('object') === false) return undefined;
    return { ...given, schema, format, ...readFields(given, shapeOf(schema), format, is30) };
  }
  // A range may also stand for any text, or for bytes.
  const isRaw = isRange(range) && given.schema.type?.join() === 'string';
  if (given.isJson && !isRaw) return { ...given, format: 'json', ...none };
  if (!node.has('schema')) return { ...given, format: 'bytes', ...none };
  const { value } = schemaNode.target('schemas');
  const { type, format, contentMediaType } = (value ?? {}) as Partial<Record<string, unknown>>;
  const isEmpty = typeof value === 'object' && value !== null && Object.keys(value).length === 0;
  if (type !== 'string' && !isEmpty && format !== 'binary' && contentMediaType === undefined)
    return undefined;
  const schema = schemas.normalize(schemaNode, 'request');
  return { ...given, schema, format: schema.binary || isEmpty ? 'bytes' : 'text', ...none };
}

/** Reads the notation of the fields of a form. */
function readFields({ node }: Content, shape: Shape, format: 'form' | 'multipart', is30: boolean) {
  const encoding = node.at('encoding');
  for (const [, given] of node.entries('encoding'))
    given.allow('contentType headers style explode allowReserved');
  const read = (name: string, one: Shape): Field => {
    const given = encoding.at(name);
    const listed = given
      .read('contentType', 'string')
      ?.split(',')
      .map((type) => parseMediaType(type.trim()));
    const place = given.value === undefined ? node.at('schema') : given;
    const isOfJson = listed?.some(({ type }) => isJson(type)) === true;
    const form = formOf(one, isOfJson, format === 'multipart' && !is30);
    const isFileMisplaced = form.kind === 'file' ? format === 'form' : holdsFile(one);
    if (isFileMisplaced)
      place.fault(
        `the field ${name} ${form.kind === 'file' ? 'is a file' : 'has a file inside'}`,
        'Write multipart/form-data with a field for each file, or format: byte',
      );
    const isUsual = (given.at('style').value ?? 'form') === 'form' && given.at('explode').value !== false;
    if (!isUsual && form.kind !== 'file') {
      const fix = 'Leave style and explode out: clients send a field for each item, and objects as JSON';
      if (format === 'multipart' && is30) given.warn('OpenAPI 3.0 ignores style and explode here', fix);
      else given.fault('style and explode are not supported in forms', fix);
    }
    if (form.kind === 'plain') checkReadable(place, one, `the field ${name}: `);
    return { name, ...form };
  };
  const { additional } = shape;
  const names = Object.keys({ ...shape.properties, ...(encoding.value as object | undefined) });
  return {
    fields: names.map((name) => read(name, propertyOf(shape, name))),
    otherField: additional ? read('(any other)', additional) : plain,
  };
}

/** Whether a value may contain bytes, up to a depth: a schema may contain itself. */
function holdsFile({ binary, items, properties, additional }: Shape, depth = 3): boolean {
  const parts = [items, additional || undefined, ...Object.values(properties)];
  return binary || (depth > 0 && parts.some((part) => part !== undefined && holdsFile(part, depth - 1)));
}

/**
 * Returns the default notation of a field: a file for bytes, JSON for objects, and text for everything else.
 * @param isOfJson - Whether the contract says that the field is JSON.
 * @param mayBeFile - Whether a field without a type is a file.
 */
function formOf(shape: Shape, isOfJson: boolean, mayBeFile: boolean): TextForm {
  const { binary, types } = (shape.types?.includes('array') ? shape.items : shape) ?? { types: ['string'] };
  const isFile = binary === true || (types === undefined && mayBeFile && !isOfJson);
  const isObject = types?.some((type) => type === 'object' || type === 'array') === true;
  const isJsonAlone = isOfJson || (isObject && !types.includes('string'));
  return { ...plain, kind: isFile ? 'file' : isJsonAlone ? 'json' : 'plain' };
}
