// Writes the package of a new service from its contract: one that starts, and responds with 501 until its operations are
// written.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { builtinModules } from 'node:module';
import { basename, dirname, extname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ConfigError } from '../process/config.js';
import type { Contract } from '../contract/contract.js';
import { checkContract, type Checked } from './check.js';
import { findErrorForm, type ErrorForm } from './error-form.js';
import { completeMigrations } from './migrations.js';
import { filesOf, type Manifest } from './new-files.js';

const ownFolder = fileURLToPath(new URL('../../', import.meta.url));

/** A contract without faults, and the form of errors that matches it, or what prevents that. */
export interface ServableContract {
  readonly contract: Contract;
  readonly errors: ErrorForm | string;
}

/**
 * Checks a contract for a service that renders errors itself if necessary.
 * @throws ConfigError if the file cannot be read.
 */
export function checkForNew(source: string): ServableContract | Checked {
  const checked = checkContract(source, true);
  const { contract, faults } = checked;
  if (contract === undefined || faults.length > 0) return checked;
  const errors = findErrorForm(contract);
  if (typeof errors !== 'string') return { contract, errors };
  // Until it renders them, errors have the server's own form.
  const own = checkContract(source, false);
  return own.contract === undefined || own.faults.length > 0 ? own : { contract: own.contract, errors };
}

/**
 * Writes the package into a folder that does not exist, or is empty.
 * @param source - The file of the contract, which is copied.
 * @param options - Whether the service has a store; and where contract-server is, for its package.json: a tarball or a
 *   folder; by default, where this command was installed from.
 * @throws ConfigError if the folder, or its name, cannot be used, or the server is not known.
 */
export function writeService(
  folder: string,
  source: string,
  { contract, errors }: ServableContract,
  { hasStore, server = findServer() }: { hasStore: boolean; server?: string | undefined },
): void {
  const name = basename(resolve(folder));
  const manifest = readManifest(join(ownFolder, 'package.json'));
  checkName(name, manifest);
  if (existsSync(folder)) {
    if (!statSync(folder).isDirectory()) throw new ConfigError(`${folder} is not a folder; name a new one`);
    if (readdirSync(folder).length > 0) throw new ConfigError(`${folder} is not empty; name a new folder`);
  }
  if (!existsSync(server)) throw new ConfigError(`there is no ${server}`);
  mkdirSync(folder, { recursive: true });
  // npm follows the path from where the folder really is.
  const dependency = `file:${relative(realpathSync(folder), realpathSync(server)).replaceAll('\\', '/')}`;
  const file = extname(source) === '.json' ? 'openapi.json' : 'openapi.yaml';
  const files = filesOf({ name, file, contract, errors, hasStore, dependency, manifest });
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text, { flag: 'wx' });
  }
  copyFileSync(source, join(folder, file));
  if (!hasStore) return;
  const migrations = pathToFileURL(`${join(resolve(folder), 'migrations')}/`);
  completeMigrations({ name, collections: [], migrations }, false);
}

function readManifest(path: string): Manifest {
  return JSON.parse(readFileSync(path, 'utf8')) as Manifest;
}

/** @throws ConfigError if npm does not accept the name, or would not install the dependencies. */
function checkName(name: string, { name: own, peerDependencies, devDependencies }: Manifest): void {
  const needed = Object.keys({ ...peerDependencies, ...devDependencies });
  const taken = [...builtinModules, 'node_modules', own, ...needed];
  if (!/^[a-z0-9][a-z0-9._-]{0,213}$/.test(name))
    throw new ConfigError(
      `${JSON.stringify(name)} cannot be the name of a package; use lowercase letters, digits, -, . and _`,
    );
  if (taken.includes(name))
    throw new ConfigError(`${name} is the name of another package; give the folder another one`);
}

/**
 * Returns where this package was installed from. No registry has it, so its name alone could install anything.
 * @throws ConfigError if that is not known.
 */
function findServer(): string {
  const home = /^(.*)[\\/]node_modules[\\/][^\\/]+[\\/]$/.exec(ownFolder)?.[1];
  if (home === undefined) return ownFolder;
  const path = join(home, 'package.json');
  const { dependencies, devDependencies }: Partial<Manifest> = existsSync(path) ? readManifest(path) : {};
  const spec = { ...devDependencies, ...dependencies }['contract-server'];
  if (spec?.startsWith('file:')) return resolve(home, spec.slice('file:'.length));
  throw new ConfigError('it is not known where contract-server is from; name its tarball with --server');
}
