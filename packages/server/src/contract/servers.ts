// Reads from a contract where its operations are: the base paths of its servers.
import type { ContractNode } from './document/contract-node.js';
import { isPathText } from './parameters.js';

/**
 * Reads the path prefixes under which the operations are served, without a slash at the end. Variables have their default
 * values.
 * @param owner - The document, a path item or an operation.
 * @returns One empty prefix if there are no servers.
 */
export function readBasePaths(owner: ContractNode): string[] {
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
    return readPath(server, url);
  });
  return paths.length === 0 ? [''] : [...new Set(paths)];
}

function readPath(server: ContractNode, url: string): string {
  const base = URL.canParse(url, 'http://localhost/')
    ? new URL(url, 'http://localhost/').pathname.replace(/\/+$/, '')
    : undefined;
  if (base?.split('/').every(isPathText) && !base.includes('//') && !url.includes('{')) return base;
  const fix = 'Define its variables, and write no special characters: clients must then use another path';
  server.at('url').fault(`${url} has no usable path`, fix);
  return '';
}
