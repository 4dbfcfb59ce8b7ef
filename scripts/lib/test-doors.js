// Checks that tests import only the doors of the server, so that a change inside it breaks no test.
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { services } from './services.js';

/** The compiled server. */
const server = 'packages/server/dist/';
/** The entries of the package, and the interface of the storage, which its conformance tests are for. */
const doors = ['index', 'start', 'testing', 'storage/open', 'storage/core/interface'];
const support = 'packages/server/test/support/';
const folders = ['', 'packages/server/', 'packages/client/', ...services].map((folder) => `${folder}test`);

/**
 * What else is imported, by which files, and why no door shows it. Support is shared by all tests, so that a change inside
 * the server changes one file of them.
 * @type {readonly (readonly [files: string, module: string, reason: string])[]}
 */
const exceptions = [
  [support, 'process/app', 'an app without a process, on a storage that fails'],
  [support, 'storage/', 'stores of a later or another process'],
  [support, 'testing/', 'requests and the check of every response'],
  [support, 'contract/', 'the types of handlers and verifiers of any contract'],
  [support, 'service/definition', 'the type of any service'],
  [support, 'service/passwords', 'the cost of a password, which tests lower'],
  [support, 'process/', 'a process whose service opens slowly; what the system lacks'],
  [support, 'base/', 'which Node.js is too old for several threads'],
  [support, 'http/connection/server', 'the type of a certificate'],
  [support, 'cli/', 'tables of a service that has no migrations of its own; what `types` and `new` write'],
  [
    support,
    'http/checked-contract',
    'the faults of hundreds of contracts, for each of which `check` would be started',
  ],
];

/** Imports of the server, with the place of a compiled file in it. */
const imports = /['"]((?:\.\.?\/)+(?:[\w-]+\/)*dist\/[\w/.-]+\.js)['"]/g;

/** A module of the server that a test imports past the doors. @typedef {{ file: string, module: string }} Import */

/** Lists all imports past the doors. @returns {Import[]} */
function listImports() {
  return folders
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)),
    )
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => /\.[jt]s$/.test(path))
    .flatMap((file) => {
      const paths = [...readFileSync(file, 'utf8').matchAll(imports)].map(([, path = '']) => path);
      return paths.map((path) => ({ file, module: posix.join(posix.dirname(file), path) }));
    })
    .filter(({ module }) => module.startsWith(server))
    .map(({ file, module }) => ({ file, module: module.slice(server.length, -'.js'.length) }))
    .filter(({ module }) => !doors.includes(module));
}

/**
 * Checks what the tests of the working directory's project import.
 * @returns {string[]} The imports that no exception allows.
 */
export function checkDoors() {
  return listImports()
    .filter(
      ({ file, module }) =>
        !exceptions.some(([files, modules]) => file.startsWith(files) && module.startsWith(modules)),
    )
    .map(({ file, module }) => `${file} imports ${module} of the server, which is no door`);
}
