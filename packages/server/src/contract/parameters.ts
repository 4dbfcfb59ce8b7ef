// Reads the parameters of an operation, and the template of its path.
import type { ContractNode } from './document/contract-node.js';
import type { TypeName } from './schema/json-types.js';
import { anySchema, type Schema } from './schema/schema.js';
import { readContent } from './responses.js';
import type { Schemas } from './schema/schema-normalizer.js';
import { anything, shapeOf, type Shape } from './schema/shape.js';

/** The part of a request that has a parameter. */
export type ParameterPlace = 'path' | 'query' | 'header' | 'cookie';

/** The notation of a value as texts. */
export interface TextForm {
  /** As one text, or one for each item (`plain`); as JSON; or as the part of a multipart body (`file`). */
  readonly kind: 'plain' | 'json' | 'file';
  /** Whether commas separate the items in one text; otherwise, it is repeated. */
  readonly isDelimited: boolean;
}

/** One text. */
export const plain: TextForm = { kind: 'plain', isDelimited: false };

/** A parameter in the normal form. */
export interface Parameter extends TextForm {
  readonly name: string;
  readonly in: ParameterPlace;
  readonly required: boolean;
  readonly schema: Schema;
  /** The schema as the contract declares it. */
  readonly declared: unknown;
}

/** Headers that OpenAPI does not allow as parameters: content and security declare them. */
const reservedHeaders = /^(accept|content-type|authorization)$/i;
/** The style of each place. */
const styles: Record<string, string> = { path: 'simple', header: 'simple', query: 'form', cookie: 'form' };

/** Reads the parameters of an operation and those of its path item, which the operation may replace. */
export function readParameters(item: ContractNode, operation: ContractNode, path: string, schemas: Schemas) {
  const all = new Map<string, { parameter: Parameter; node: ContractNode }>();
  for (const owner of [item, operation]) {
    const keys = new Set<string>();
    for (const node of owner.list('parameters')) {
      const parameter = readParameter(node.target('parameters'), schemas);
      if (parameter === undefined) continue;
      const name = parameter.in === 'header' ? parameter.name.toLowerCase() : parameter.name;
      const key = `${parameter.in} ${name}`;
      if (keys.has(key)) node.fault(`the parameter ${key} is declared twice`, 'Leave one out');
      keys.add(key);
      all.set(key, { parameter, node });
    }
  }
  const declared = [...all.values()];
  const missing = new Set(namesOf(path.split('?', 1)[0]!));
  const extra = declared.filter(
    ({ parameter }) => parameter.in === 'path' && !missing.delete(parameter.name),
  );
  for (const { parameter, node } of extra) {
    const { name } = parameter;
    const fix = `Write {${name}} in the path, where another name may stand for it, or leave it out`;
    node.fault(`the path parameter ${name} is not in the path`, fix);
  }
  const undeclared = extra.length > 0 ? [] : [...missing];
  for (const name of undeclared) {
    const example = `{ name: ${name}, in: path, required: true, schema: { type: string } }`;
    const fix = `Add it to parameters, as in ${example}`;
    operation.warn(`the path parameter ${name} is not declared: it is any text`, fix);
  }
  const anyText = { in: 'path', required: true, schema: asText(anySchema), declared: {}, ...plain } as const;
  return [...declared.map(({ parameter }) => parameter), ...undeclared.map((name) => ({ name, ...anyText }))];
}

function readParameter(node: ContractNode, schemas: Schemas): Parameter | undefined {
  node.allow(
    'name! in description required deprecated schema example examples style explode allowReserved allowEmptyValue content',
    'in schema',
  );
  if (!node.isObject) return undefined;
  const name = node.read('name', 'string');
  const where = node.read('in', 'string') ?? '';
  if (!Object.hasOwn(styles, where)) {
    const fix = 'Write in: path, query, header or cookie, or requestBody in the operation';
    node.placeOf('in').fault('in is missing or not valid', fix);
    return undefined;
  }
  if (name === undefined) return undefined;
  if (name === '__proto__')
    node.at('name').fault('the name __proto__ is not supported', 'Write another name');
  const at = where as ParameterPlace;
  if (at === 'header' && reservedHeaders.test(name)) return undefined;
  if (!node.has('schema') && !node.has('content') && !node.has('type'))
    node.fault('schema is missing', 'Write schema with a type');
  const required = node.read('required', 'boolean') === true;
  if (at === 'path' && !required) node.fault('a path parameter is always required', 'Write required: true');
  if (node.has('content')) {
    const [content, ...others] = readContent(node, schemas, 'request');
    if (node.has('schema') || content?.isJson !== true || others.length > 0)
      node.at('content').fault('a parameter is JSON, or has a schema', 'Write schema with type: string');
    const schema = content?.schema ?? anySchema;
    const declared = content?.node.at('schema').value;
    return { name, in: at, required, schema, declared, ...plain, kind: 'json' };
  }
  const declared = node.at('schema');
  const schema = node.has('schema') ? schemas.normalize(declared, 'text') : anySchema;
  checkText(declared, schema, at);
  const form = readForm(node, shapeOf(schema), at);
  return { name, in: at, required, schema: asText(schema), declared: declared.value, ...form };
}

/** Reads the notation of a parameter. */
function readForm(node: ContractNode, shape: Shape, where: ParameterPlace): TextForm {
  const style = node.read('style', 'string');
  if (style !== undefined && style !== styles[where] && shape.types?.includes('object') !== true) {
    const fix = `Write ${styles[where]!}, or for the same URLs type: string, and read the text in the handler`;
    node.at('style').fault(`the style ${style} is not supported here`, fix);
  }
  return { kind: 'plain', isDelimited: where !== 'query' || node.read('explode', 'boolean') === false };
}

/** A parameter is a text, unless its schema says otherwise. */
function asText(schema: Schema): Schema {
  return shapeOf(schema).types === undefined ? { ...schema, type: ['string'] } : schema;
}

/** The remedy for a value that the server cannot read, since its notation is unknown. */
export const textFix =
  'Write schema with type: string, and read the text in the handler: requests stay, but types of generated clients change';

/** Checks that a text can be read in only one way. */
function checkText(node: ContractNode, schema: Schema, where: ParameterPlace): void {
  const shape = shapeOf(schema);
  if (where === 'cookie' && shape.types?.includes('array'))
    node.fault('an array in a cookie is not supported', textFix);
  else
    checkReadable(
      node,
      shape,
      '',
      where === 'query' && textTypes(shape).join() === 'object' ? namesFix : textFix,
    );
}

/** The remedy for an object in a query. */
const namesFix =
  'Write a parameter for each name that clients send instead, such as filter[color]: requests stay, but types of generated clients change';

/** The types that a text stands for; without any, it is a string. */
function textTypes({ types = ['string'] }: Shape): readonly TypeName[] {
  return types.filter((type) => type !== 'null');
}

/**
 * Checks that texts can be read as values of a shape.
 * @param name - The beginning of messages, if it is not the whole value of the node.
 * @param fix - The remedy for an object.
 */
export function checkReadable(node: ContractNode, shape: Shape, name = '', fix = textFix): void {
  const types = textTypes(shape);
  const items = types.includes('array') ? textTypes(shape.items ?? anything) : [];
  if (types.includes('object')) node.fault(`${name}${types.join(' or ')} is not supported here`, fix);
  else if (items.some((type) => type === 'array' || type === 'object'))
    node.fault(`${name}the items are arrays or objects, which OpenAPI does not say how to write`, textFix);
}

/** The names in a path template. */
function namesOf(path: string): string[] {
  return [...path.matchAll(/{([^{}]+)}/g)].map(([, name]) => name!);
}

/** The path of an operation for the router, and the router's name of each path parameter. */
export interface Route {
  readonly path: string;
  readonly names: Readonly<Record<string, string>>;
}

/**
 * Translates a path template for the router.
 * @param node - The path item.
 */
export function readRoute(node: ContractNode, path: string): Route {
  const names: Record<string, string> = {};
  for (const name of namesOf(path)) {
    if (Object.hasOwn(names, name))
      node.fault(`the path parameter ${name} is there twice`, 'Give each its own name: the URLs stay');
    // Metrics show it.
    const plain = /^\w+$/.test(name) ? name : `p${Object.keys(names).length}_${name.replaceAll(/\W/g, '_')}`;
    names[name] = plain;
  }
  const segments = path.split('/').map((segment) => routeOf(segment, names));
  if (!path.startsWith('/') || segments.includes(undefined) || path.includes('//')) {
    const fix = !path.startsWith('/')
      ? `Write /${path}`
      : /[?#]/.test(path)
        ? 'End it before the ? or #, and write a parameter with in: query for each name after it, if need be in the operation of the path that is there already: URLs stay'
        : "Let clients use another, with separate parameters, and only letters, digits and -._~:@!$&'()+=,;";
    node.fault('a path of this form is not supported', fix);
  }
  return { path: segments.join('/'), names };
}

/** Translates a segment; undefined if the router does not support it. */
function routeOf(segment: string, names: Readonly<Record<string, string>>): string | undefined {
  // Texts and the names of parameters, alternately.
  const parts = segment.split(/{([^{}]+)}/);
  const isSupported = parts.every((part, i) =>
    i % 2 === 1 ? i === parts.length - 2 || parts[i + 1] !== '' : isPathText(part),
  );
  if (!isSupported) return undefined;
  if (parts.join('') === parts[1]) return `:${names[parts[1]]!}`;
  const routes = parts.map((part, i) => {
    if (i % 2 === 0) return literalRoute(part);
    // The last parameter takes the rest of the segment, and each other one ends at the next character: this takes
    // linear time.
    const end = parts[i + 1]!.charAt(0).replace(/\W/, '\\$&');
    return `:${names[part]!}(${i === parts.length - 2 ? '.+' : `[^${end}]+`})`;
  });
  return routes.join('');
}

/**
 * Whether a text can be in a segment, in the notation of URLs. Letters beyond ASCII can, because clients escape them.
 */
export function isPathText(text: string): boolean {
  return /^[\p{L}\p{M}\p{N}\w.~:@!$&'()+=,;-]*$/u.test(text);
}

/** Writes a text of a path for the router, to which a colon means something. */
export function literalRoute(text: string): string {
  return text.replaceAll(':', '::');
}
