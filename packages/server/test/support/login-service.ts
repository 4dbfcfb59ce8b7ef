// The service of docs/login.md, whose contract and migrations are in a folder that a test writes.
import type { Service } from '../../dist/service/definition.js';
import { loginCollections, loginErrors, loginOperations } from '../examples/login/login.js';
import { cost } from '../../dist/service/passwords.js';

// Tests hash many passwords.
cost.N = 2 ** 10;

export function serviceIn(folder: URL): Service {
  const at = (path: string) => new URL(path, folder);
  return {
    name: 'tasks',
    program: at('main.js'),
    command: at('cli.js'),
    contract: at('openapi.yaml'),
    open: (context) => ({ handlers: loginOperations(context) }),
    collections: Object.values(loginCollections),
    migrations: at('migrations/'),
    errors: loginErrors,
    scopes: ['tasks:read', 'tasks:write'],
    tokenPrefix: 'tsk_',
    realm: 'tasks',
    metricPrefix: 'tasks_',
    databaseUrl: 'file:./data/tasks.db',
  };
}
