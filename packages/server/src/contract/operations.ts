// Reads the operations of a contract into the normal form.
import { readRequirements, type Requirement } from './security.js';
import { readBasePaths } from './servers.js';
import { readParameters, readRoute, type Parameter, type Route } from './parameters.js';
import type { ContractNode } from './document/contract-node.js';
import { readBody, type Body } from './body.js';
import { readResponses, type Responses } from './responses.js';
import type { Schemas } from './schema/schema-normalizer.js';
import type { Finding } from './document/finding.js';

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
  /** Describes a fault of the operation, with its place in the contract. */
  readonly find: (message: string, fix: string) => Finding;
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
  return found.map(({ operation, node }) => {
    const { operationId, method, route, basePaths } = operation;
    if (ids.has(operationId))
      node
        .placeOf('operationId')
        .fault(
          `the operationId ${operationId} is also that of ${ids.get(operationId)!}`,
          'Write another one in one of them: it is the name of a method in generated clients, which then changes',
        );
    else ids.set(operationId, `${method} ${operation.path}`);
    // Without the names of the parameters; a colon is written twice.
    const form = route.path.replaceAll(/::|:\w+/g, (found) => (found === '::' ? found : ':'));
    const verbs = method === 'GET' ? ['GET', 'HEAD'] : [method];
    const keys = basePaths.flatMap((base) => verbs.map((verb) => `${verb} ${base}${form}`));
    if (keys.some((key) => routes.has(key)))
      node.fault(
        'another path with this method matches the same URLs',
        'Leave one out: requests cannot tell them apart',
      );
    for (const key of keys) routes.add(key);
    return operation;
  });
}

function readPath(path: string, item: ContractNode, surroundings: Surroundings) {
  const verbs = [...methods, ...otherMethods].join(' ');
  item.allow(`summary description servers parameters $ref ${verbs}`, 'in an operation such as get');
  for (const name of otherMethods.filter((method) => item.has(method)))
    item.at(name).warn(`${name.toUpperCase()} is not served, except for CORS`);
  const isDerived = item.has('get') && item.has('head');
  if (isDerived) item.at('head').warn('the server responds to HEAD as to GET, without the body');
  const declared = methods.filter((method) => item.has(method) && !(isDerived && method === 'head'));
  if (declared.length === 0) return [];
  const [, name] = /\/:(\w+)/.exec(path) ?? [];
  if (name !== undefined)
    item.warn(`:${name} is a text like others in the path`, `Write {${name}} if it stands for a parameter`);
  const route = readRoute(item, path);
  return declared.map((method) => {
    const node = item.at(method).target('pathItems');
    return { node, operation: readOperation({ method, path, route, item, node }, surroundings) };
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

function readOperation(
  { method, path, route, item, node }: Declaration,
  surroundings: Surroundings,
): Operation {
  const { document, schemas } = surroundings;
  node.allow(
    'operationId tags summary description externalDocs deprecated servers parameters requestBody security callbacks ' +
      `responses${surroundings.is30 ? '!' : ''} x-required-scope`,
  );
  node.texts('tags');
  if (!surroundings.is30 && !node.has('responses'))
    node.warn('no responses are declared: success is 200, without content', 'Declare responses');
  const security = readSecurity(node, surroundings);
  const requiredScope = node.read('x-required-scope', 'string');
  const needsCaller = security.length > 0 && security.every((requirement) => requirement.length > 0);
  if (requiredScope !== undefined && !needsCaller) {
    const fix = 'Leave it out, or write security: clients must then authenticate';
    node.at('x-required-scope').fault('an operation that needs no caller cannot require a scope', fix);
  }
  const isScoped = requiredScope !== undefined || security.flat().some(({ scopes }) => scopes.length > 0);
  const own = [...(security.length > 0 ? [401] : []), ...(isScoped ? [403] : [])];
  const responses = readResponses(node, schemas, own, surroundings.hasOwnErrors);
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
    parameters: readParameters(item, node, path, schemas).filter(
      // The server reads it itself, and returns 304.
      (one) =>
        !(responses.isConditional && one.in === 'header' && one.name.toLowerCase() === 'if-none-match'),
    ),
    body: readBody(node, method, schemas, surroundings.is30),
    find: (message, fix) => node.find(message, fix),
  };
}

function readSecurity(node: ContractNode, { document }: Surroundings): Requirement[] {
  const owner = [node, document].find((one) => one.has('security'));
  const components = document.at('components');
  if (owner === undefined) {
    const [[scheme] = ['bearerAuth']] = components.entries('securitySchemes');
    node.warn(
      'no security is declared: the operation is public',
      `Write security: [] if it is to be public, or with {} as an alternative, as in [{}, { ${scheme}: [] }], if callers ` +
        'may also be known',
    );
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
