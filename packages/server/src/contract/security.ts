// Reads from a contract who may call its operations: security schemes and requirements.
import type { ContractNode } from './document/contract-node.js';

/** A security scheme. */
export type SecurityScheme =
  | { readonly kind: 'basic' | 'bearer' | 'oauth2' | 'openIdConnect' }
  /** Another scheme of HTTP, by its name in lower case. */
  | { readonly kind: 'http'; readonly scheme: string }
  | { readonly kind: 'apiKey'; readonly name: string; readonly in: 'header' | 'query' | 'cookie' };

/** A scheme that a caller must satisfy, and the scopes that it must grant. */
export interface SchemeUse {
  readonly scheme: string;
  readonly scopes: readonly string[];
}

/** Schemes that a caller must satisfy together; an empty list is satisfied without credentials. */
export type Requirement = readonly SchemeUse[];

/** Reads the security schemes of the components. */
export function readSchemes(components: ContractNode): Record<string, SecurityScheme> {
  const schemes = components.entries('securitySchemes').map(([name, given]) => {
    // They are part of subjects.
    if (!/^[\w.-]+$/.test(name))
      given.fault(`${JSON.stringify(name)} cannot be a name here`, 'Use letters, digits, ., - and _');
    return [name, readScheme(given.target('securitySchemes'))] as const;
  });
  return Object.fromEntries(
    schemes.filter((entry): entry is [string, SecurityScheme] => entry[1] !== undefined),
  );
}

/** The fields of each type of scheme. */
const fields: Readonly<Record<string, string>> = {
  http: 'scheme! bearerFormat',
  apiKey: 'name! in!',
  oauth2: 'flows! oauth2MetadataUrl',
  openIdConnect: 'openIdConnectUrl!',
};

function readScheme(node: ContractNode): SecurityScheme | undefined {
  const type = node.read('type', 'string') ?? '';
  if (!Object.hasOwn(fields, type)) {
    const fix = 'Write type: http with scheme: bearer or basic, or apiKey, oauth2 or openIdConnect';
    node.fault(`the security scheme ${JSON.stringify(type)} is not supported`, fix);
    return undefined;
  }
  node.allow(`type description ${fields[type]!}`);
  if (type === 'http') {
    const scheme = (node.read('scheme', 'string') ?? '').toLowerCase();
    return scheme === 'basic' || scheme === 'bearer' ? { kind: scheme } : { kind: type, scheme };
  }
  if (type !== 'apiKey') return { kind: type as 'oauth2' | 'openIdConnect' };
  const where = node.read('in', 'string');
  if (where === 'header' || where === 'query' || where === 'cookie')
    return { kind: type, name: node.read('name', 'string') ?? '', in: where };
  node.fault('an apiKey is in a header, query or cookie', 'Write in: header, in: query or in: cookie');
  return undefined;
}

/**
 * Reads the security requirements of an operation. A caller must satisfy one of them.
 * @param node - The field `security` of the operation, or of the document.
 * @returns An empty list for a public operation.
 */
export function readRequirements(owner: ContractNode, components: ContractNode): Requirement[] {
  return owner.list('security').map((requirement) => {
    if (!requirement.isObject)
      requirement.fault('must be an object', 'Write the name of a scheme, as in name: []');
    return requirement.names.map((name) => {
      if (!components.at('securitySchemes').has(name)) {
        const fix = `Add it to components/securitySchemes, as in ${name}: { type: http, scheme: bearer }`;
        requirement.at(name).fault(`${name} is not a security scheme of the contract`, fix);
      }
      return { scheme: name, scopes: requirement.texts(name) };
    });
  });
}
