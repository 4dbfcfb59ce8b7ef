// Reads the parameters of an operation, and the template of its path.
import { checkName } from './schema-keywords.js';
import type { ContractNode } from './contract-node.js';
import { anySchema, type Schema } from './schema.js';
import type { Schemas } from './schema-normalizer.js';

/** The part of a request that has a parameter. */
export type ParameterPlace = 'path' | 'query' | 'header' | 'cookie';

/** A parameter in the normal form. */
export interface Parameter {
  readonly name: string;
  readonly in: ParameterPlace;
  readonly required: boolean;
  readonly schema: Schema;
  /** What separates the items of an array in one text; undefined if the parameter is repeated instead. */
  readonly separator: string | undefined;
}

/** Headers that OpenAPI does not allow as parameters, in lower case. */
const reservedHeaders = ['accept', 'content-type', 'authorization'];
const styles: Readonly<Record<ParameterPlace, Readonly<Record<string, string>>>> = {
  path: { simple: ',' },
  header: { simple: ',' },
  query: { form: ',', spaceDelimited: ' ', pipeDelimited: '|' },
  cookie: { form: ',' },
};

/** Reads the parameters of an operation and those of its path item, which the operation may replace. */
export function readParameters(
  item: ContractNode,
  operation: ContractNode,
  path: string,
  schemas: Schemas,
): Parameter[] {
  const all = new Map<string, Parameter>();
  for (const owner of [item, operation]) {
    const keys = new Set<string>();
    for (const given of owner.list('parameters')) {
      const parameter = readParameter(given.target(), schemas);
      if (parameter === undefined) continue;
      const name = parameter.in === 'header' ? parameter.name.toLowerCase() : parameter.name;
      const key = `${parameter.in} ${name}`;
      if (keys.has(key)) given.fault(`the parameter ${key} is declared twice`, 'Leave one out');
      keys.add(key);
      all.set(key, parameter);
    }
  }
  const parameters = [...all.values()];
  const inPath = parameters.filter((one) => one.in === 'path').map(({ name }) => name);
  const placeholders = namesOf(path);
  for (const name of placeholders) {
    if (!inPath.includes(name))
      operation.fault(`the path parameter ${name} is not declared`, 'Add it to parameters');
  }
  const extra = inPath.find((name) => !placeholders.includes(name));
  if (extra !== undefined) {
    operation.fault(
      `the path parameter ${extra} is not in the path`,
      `Write {${extra}} in the path, or leave it out`,
    );
  }
  return parameters;
}

function readParameter(node: ContractNode, schemas: Schemas): Parameter | undefined {
  node.allow(
    'name in description required deprecated schema example examples style explode allowReserved allowEmptyValue content',
  );
  const name = node.text('name');
  const where = node.text('in');
  if (name === undefined || where === undefined || !Object.hasOwn(styles, where)) {
    node.fault('name or in is missing or not valid', 'Write a name, and in: path, query, header or cookie');
    return undefined;
  }
  checkName(node, name);
  const at = where as ParameterPlace;
  if (at === 'header' && reservedHeaders.includes(name.toLowerCase())) {
    node.warn(`OpenAPI ignores a parameter ${name}`, 'Leave it out: the server reads this header itself');
    return undefined;
  }
  if (node.has('content')) {
    const fix = 'Write schema with type: string, and parse the text in the handler';
    node.at('content').fault('content is not supported here', fix);
    return undefined;
  }
  if (node.at('style').value === 'deepObject') {
    const fix = `Write a parameter for each property, named as in ${name}[color]: clients send the same`;
    node.at('style').fault('the style deepObject is not supported', fix);
    return undefined;
  }
  node.require('schema', 'Write schema with a type');
  if (node.flag('allowEmptyValue') === true) {
    node
      .at('allowEmptyValue')
      .fault('allowEmptyValue is not supported', 'Write type: string without minLength');
  }
  const required = node.flag('required') === true;
  if (at === 'path' && !required) node.fault('a path parameter is always required', 'Write required: true');
  const schema = node.has('schema') ? schemas.normalize(node.at('schema'), 'text') : anySchema;
  checkText(node.at('schema'), schema, at);
  checkEnum(node.at('schema'), schema);
  return { name, in: at, required, schema: asText(schema), separator: readSeparator(node, at) };
}

/** Returns what separates the items of an array in one text; undefined if the parameter is repeated instead. */
function readSeparator(node: ContractNode, where: ParameterPlace): string | undefined {
  const separators = new Map(Object.entries(styles[where]));
  const names = [...separators.keys()];
  const style = node.text('style') ?? names[0]!;
  if (!separators.has(style))
    node.at('style').fault(`the style ${style} is not supported here`, `Write ${names.join(' or ')}`);
  const isRepeated = where === 'query' && (node.flag('explode') ?? style === 'form');
  return isRepeated ? undefined : separators.get(style);
}

/** A parameter is a text, unless its schema says otherwise. */
function asText(schema: Schema): Schema {
  if (schema.shape.types !== undefined) return schema;
  return { ...schema, type: ['string'], shape: { ...schema.shape, types: ['string'] } };
}

/** Checks that a text can be read in only one way. */
function checkText(node: ContractNode, { shape }: Schema, where: ParameterPlace): void {
  const types = (shape.types ?? ['string']).filter((type) => type !== 'null');
  if (types.length !== 1) node.fault('a text could have several types', 'Write one type');
  if (types[0] !== 'array') return;
  if (where === 'cookie')
    node.fault('an array in a cookie is not supported', 'Write type: string, and split it in the handler');
  const items = (shape.items?.types ?? ['string']).filter((type) => type !== 'null');
  if (items.length !== 1 || items[0] === 'array' || items[0] === 'object') {
    node.fault('the items could have several types', 'Write items with one type that is not array or object');
  }
}

/** Refuses values that no text could equal: without a type, a parameter and its items are texts. */
function checkEnum(node: ContractNode, schema: Schema): void {
  const isWrong = (one: Schema | undefined) =>
    (one?.type ?? one?.shape.types) === undefined && one?.enum?.some((value) => typeof value !== 'string');
  if (!isWrong(schema) && !isWrong(schema.items)) return;
  node.fault(
    'no text equals a value of enum that is not a text',
    'Write the type of the values next to enum',
  );
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
  const segments = path.split('/');
  const isSupported = segments.every((segment) => /^([\w.~:@!$&'+=,;-]*|{[^{}]+})$/.test(segment));
  if (!path.startsWith('/') || !isSupported || path.includes('//')) {
    node.fault(
      'a path of this form is not supported',
      'Begin it with /, and let each parameter be a whole segment, as in /books/{id}',
    );
  }
  const names: Record<string, string> = {};
  for (const name of namesOf(path)) {
    if (Object.hasOwn(names, name))
      node.fault(`the path parameter ${name} is there twice`, 'Give each parameter its own name');
    const plain = /^\w+$/.test(name) ? name : `p${Object.keys(names).length}_${name.replaceAll(/\W/g, '_')}`;
    names[name] = plain;
  }
  const route = path.replaceAll(':', '::').replaceAll(/{([^{}]+)}/g, (_, name: string) => `:${names[name]!}`);
  return { path: route, names };
}
