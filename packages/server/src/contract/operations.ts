// Reads the operations of a contract into the normal form.
import { readRequirements, type Requirement } from './security.js';
import { isPathText, readParameters, readRoute, type Parameter, type Route } from './parameters.js';
import type { ContractNode } from './document/contract-node.js';
import { readBody, type Body } from './body.js';
import { readResponses, type Responses } from './responses.js';
import type { Schemas } from './schema/schema-normalizer.js';

/** An operation in the normal form. */
export interface Operation extends Responses {
  readonly operationId: string;
  /** In upper case, as in a request. */
  readonly method: string;
  /** As in the contract, without a base path, as in `/books/{id}`. */
  readonly path: string;
  /** The prefixes of the path, from the servers; usually one, and empty. */
  readonly basePaths: readonly string[];
  readonly route: Route;
  /** The path item and the operation as the contract declares them. */
  readonly declared: { readonly item: unknown; readonly operation: unknown };
  /** The security requirements. A caller must satisfy one of them; a public operation has none. */
  readonly security: readonly Requirement[];
  /** The scope that the caller needs (`x-required-scope`). */
  readonly requiredScope: string | undefined;
  readonly parameters: readonly Parameter[];
  readonly body: Body | undefined;
  /** Its place in the contract. */
  readonly node: ContractNode;
}

/** The methods that an operation can have. OPTIONS is used for CORS only. */
export const methods = ['get', 'head', 'post', 'put', 'patch', 'delete'] as const;
const otherMethods = ['options', 'trace'];

/** The rest of the document, as far as operations depend on it. */
export interface Surroundings {
  readonly document: ContractNode;
  readonly schemas: Schemas;
  readonly is30: boolean;
  /** Whether the service renders errors itself. */
  readonly hasOwnErrors: boolean;
}

/** Reads all operations. */
export function readOperations(surroundings: Surroundings): Operation[] {
  const found = surroundings.document
    .entries('paths')
    .filter(([path]) => !path.startsWith('x-'))
    .flatMap(([path, given]) => readPath(path, given.target('pathItems'), surroundings));
  const ids = new Map<string, string>();
  const routes = new Set<string>();
  return found.map((operation) => {
    const { operationId, method, route, basePaths, node } = operation;
    const other = ids.get(operationId) ?? '';
    const fix = 'Write another one in one of them: methods of generated clients are named after it';
    const place = node.placeOf('operationId');
    if (other !== '') place.fault(`the operationId ${operationId} is also that of ${other}`, fix);
    else ids.set(operationId, `${method} ${operation.path}`);
    // Without the names of the parameters; a colon is written twice.
    const form = route.path.replaceAll(/::|:\w+/g, (found) => (found === '::' ? found : ':'));
    const verbs = method === 'GET' ? ['GET', 'HEAD'] : [method];
    const keys = basePaths.flatMap((base) => verbs.map((verb) => `${verb} ${base}${form}`));
    if (keys.some((key) => routes.has(key)))
      node.fault('another path with this method matches the same URLs', 'Leave one of them out');
    for (const key of keys) routes.add(key);
    return operation;
  });
}

function readPath(path: string, item: ContractNode, surroundings: Surroundings) {
  const verbs = [...methods, ...otherMethods].join(' ');
  item.allow(`summary description servers parameters $ref ${verbs}`, 'in an operation such as get');
  for (const name of otherMethods.filter((method) => item.has(method)))
    item.at(name).warn(`${name.toUpperCase()} is not served, except for CORS`);
  // The server responds to HEAD as to GET.
  const declared = methods.filter((method) => item.has(method) && (method !== 'head' || !item.has('get')));
  if (declared.length === 0) return [];
  const [, name] = /\/:(\w+)/.exec(path) ?? [];
  if (name !== undefined)
    item.warn(`:${name} is a text like others in the path`, `Write {${name}} if it stands for a parameter`);
  const route = readRoute(item, path);
  return declared.map((method) => {
    const node = item.at(method).target('pathItems');
    return readOperation({ method, path, route, item, node }, surroundings);
  });
}

/** The place where an operation is declared. */
interface Declaration {
  readonly method: string;
  readonly path: string;
  readonly route: Route;
  readonly item: ContractNode;
  readonly node: ContractNode;
}

function readOperation({ method, path, route, item, node }: Declaration, around: Surroundings): Operation {
  const { document, schemas, is30, hasOwnErrors } = around;
  node.allow(
    'operationId tags summary description externalDocs deprecated servers parameters requestBody security callbacks ' +
      `responses${is30 ? '!' : ''} x-required-scope`,
  );
  node.texts('tags');
  if (!is30 && !node.has('responses'))
    node.warn('no responses are declared: success is 200, without content', 'Declare responses');
  const security = readSecurity(node, document);
  const requiredScope = node.read('x-required-scope', 'string');
  const needsCaller = security.length > 0 && security.every((requirement) => requirement.length > 0);
  if (requiredScope !== undefined && !needsCaller) {
    const fix = 'Leave it out, or write security: clients must then authenticate';
    node.at('x-required-scope').fault('an operation that needs no caller cannot require a scope', fix);
  }
  const isScoped = requiredScope !== undefined || security.flat().some(({ scopes }) => scopes.length > 0);
  const own = [...(security.length > 0 ? [401] : []), ...(isScoped ? [403] : [])];
  const responses = readResponses(node, schemas, own, hasOwnErrors);
  const servers = [node, item].find((owner) => owner.has('servers')) ?? document;
  return {
    ...responses,
    operationId: node.read('operationId', 'string') || deriveId(method, path),
    method: method.toUpperCase(),
    path,
    basePaths: readBasePaths(servers),
    route,
    declared: { item: item.value, operation: node.value },
    security,
    requiredScope,
    // The server reads If-None-Match itself, and returns 304.
    parameters: readParameters(item, node, path, schemas).filter(
      ({ in: place, name }) =>
        !responses.isConditional || place !== 'header' || name.toLowerCase() !== 'if-none-match',
    ),
    body: readBody(node, method, schemas, is30),
    node,
  };
}

function readSecurity(node: ContractNode, document: ContractNode): Requirement[] {
  const owner = [node, document].find((one) => one.has('security'));
  const components = document.at('components');
  if (owner === undefined) {
    const [[scheme] = ['bearerAuth']] = components.entries('securitySchemes');
    const fix = `Write security: [] if it is to be so, or [{}, { ${scheme}: [] }] if callers may also be known`;
    node.warn('no security is declared: the operation is public', fix);
    return [];
  }
  return readRequirements(owner, components);
}

/** Derives the id of an operation whose id is missing or empty, as in `getBooksById`. */
function deriveId(method: string, path: string): string {
  const words = path
    .replaceAll(/{([^}]*)}/g, ' by $1')
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '');
  return [method, ...words.map((word) => word[0]!.toUpperCase() + word.slice(1))].join('');
}

/**
 * Reads the path prefixes under which the operations are served, without a slash at the end. Variables have their default
 * values.
 * @param owner - The document, a path item or an operation.
 * @returns One empty prefix if there are no servers.
 */
function readBasePaths(owner: ContractNode): string[] {
  const paths = owner.list('servers').map((server) => {
    server.allow('url! description variables name');
    // Whatever the host is, the paths are the same.
    const template = (server.read('url', 'string') ?? '/').replace(/^([a-z]+:)?\/\/[^/]*/i, '');
    const url = server.entries('variables').reduce((filled, [name, variable]) => {
      variable.allow('enum default description');
      const value = variable.scalar('default');
      if (value === undefined) variable.fault('default is missing', 'Write the value that this server has');
      return filled.replaceAll(`{${name}}`, () => value ?? '');
    }, template);
    return basePathOf(server, url);
  });
  return paths.length === 0 ? [''] : [...new Set(paths)];
}

function basePathOf(server: ContractNode, url: string): string {
  const base = URL.canParse(url, 'http://localhost/')
    ? new URL(url, 'http://localhost/').pathname.replace(/\/+$/, '')
    : undefined;
  if (base?.split('/').every(isPathText) && !base.includes('//') && !url.includes('{')) return base;
  const fix = 'Define its variables, and write no special characters: clients must then use another path';
  server.at('url').fault(`${url} has no usable path`, fix);
  return '';
}
