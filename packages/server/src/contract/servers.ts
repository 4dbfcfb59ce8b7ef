// Reads from a contract where its operations are: the base paths of its servers.
import type { ContractNode } from './contract-node.js';

/**
 * Reads the path prefixes under which the operations are served, without a slash at the end; variables have their
 * default values.
 * @param owner - The document, a path item or an operation.
 * @returns One empty prefix if there are no servers.
 */
export function readBasePaths(owner: ContractNode): string[] {
  const paths = owner.list('servers').map((server) => {
    server.allow('url description variables name');
    server.require('url', 'Write url: /');
    const variables = new Map(
      server.entries('variables').map(([name, one]) => {
        one.allow('enum default description');
        one.require('default', 'Write the value that this server has');
        return [name, one.scalar('default') ?? ''];
      }),
    );
    const url = (server.text('url') ?? '/').replaceAll(/{([^}]*)}/g, (_, name: string) => {
      const value = variables.get(name);
      if (value === undefined)
        server.at('url').fault(`the variable ${name} is not defined`, 'Add it to variables');
      return value ?? '';
    });
    const base = URL.canParse(url, 'http://localhost/')
      ? new URL(url, 'http://localhost/').pathname
      : undefined;
    if (base === undefined || !/^(\/[\w.~+@!$&',;=-]+)*\/*$/.test(base)) {
      server
        .at('url')
        .fault(
          `${url} has no usable path`,
          'Write a URL whose path has no special characters, which clients must then use',
        );
    }
    return (base ?? '').replace(/\/+$/, '');
  });
  return paths.length === 0 ? [''] : [...new Set(paths)];
}
