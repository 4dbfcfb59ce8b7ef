// Reads from a contract where its operations are: the base paths of its servers.
import type { ContractNode } from './document/contract-node.js';
import { isPathText } from './parameters.js';

/**
 * Reads the path prefixes under which the operations are served, without a slash at the end; those with the default values
 * of variables come first, then those with the others of `enum`.
 * @param owner - The document, a path item or an operation.
 * @returns One empty prefix if there are no servers.
 */
export function readBasePaths(owner: ContractNode): string[] {
  const paths = owner.list('servers').flatMap((server) => {
    server.allow('url description variables name');
    server.require('url', 'Write url: /');
    const variables = new Map(
      server.entries('variables').map(([name, one]) => {
        one.allow('enum default description');
        one.require('default', 'Write the value that this server has');
        const values = [one.at('default'), ...one.list('enum')].flatMap((given) => {
          const { value } = given;
          if (typeof value === 'string' || typeof value === 'number') return String(value);
          if (value !== undefined) given.fault('must be a text', 'Write a part of the url');
          return [];
        });
        return [name, values];
      }),
    );
    const template = server.text('url') ?? '/';
    const names = [...template.matchAll(/{([^}]*)}/g)].map(([, name = '']) => name);
    const urls = names.reduce(
      (all, name) => {
        const values = variables.get(name) ?? ['x'];
        if (!variables.has(name)) {
          // Whatever the host is, the paths are the same.
          const isInHost = !template.replace(/^([a-z]+:)?\/\/[^/]*/i, '').includes(`{${name}}`);
          const report = isInHost ? 'warn' : 'fault';
          server.at('url')[report](`the variable ${name} is not defined`, 'Add it to variables');
        }
        return all.flatMap((url) => values.map((value) => url.replaceAll(`{${name}}`, () => value)));
      },
      [template],
    );
    return urls.map((url) => readPath(server, url));
  });
  return paths.length === 0 ? [''] : [...new Set(paths)];
}

function readPath(server: ContractNode, url: string): string {
  const base = URL.canParse(url, 'http://localhost/')
    ? new URL(url, 'http://localhost/').pathname.replace(/\/+$/, '')
    : undefined;
  if (base === undefined || base.includes('//') || !base.split('/').every(isPathText)) {
    server
      .at('url')
      .fault(
        `${url} has no usable path`,
        'Write a URL whose path has no special characters, which clients must then use',
      );
  }
  return base ?? '';
}
