// The command contract-server, for developers: it checks contracts, and writes types, migrations and new services. A server
// runs without it.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { checkContract, printFindings } from './check.js';
import { completeMigrations } from './migrations.js';
import { checkForNew, writeService } from './new.js';
import { renderTypes } from './types.js';
import { ConfigError } from '../process/config.js';
import type { Service } from '../service/definition.js';
import { createCommand } from '../process/commands/command-line.js';
import { version } from '../base/version.js';

/** The options of the command `new`. */
interface NewOptions {
  readonly contract: string;
  readonly server?: string;
  readonly store: boolean;
}

const name = 'contract-server';
const program = createCommand({ name })
  .description('Makes a service from an OpenAPI contract.')
  .version(version)
  .addHelpText(
    'after',
    `
Examples:
  $ ${name} new tasks --contract tasks.yaml
  $ ${name} check openapi.yaml --strict
  $ ${name} types openapi.yaml src/types.gen.ts
  $ ${name} migrations dist/service.js --check`,
  );

program
  .command('new')
  .description('write the package of a new service, whose operations respond with 501 until you write them')
  .argument('<folder>', 'a folder that is new or empty; its name is that of the package')
  .requiredOption('--contract <file>', 'OpenAPI 3.0 or 3.1, in YAML or JSON; it is copied')
  .option(
    '--server <path>',
    `the tarball or folder of ${name} (default: where this command was installed from)`,
  )
  .option('--no-store', 'the service keeps everything in a database of its own')
  .action((folder: string, { contract: file, server, store: hasStore }: NewOptions) => {
    const checked = checkForNew(file);
    if ('faults' in checked) {
      printFindings(file, checked);
      process.exitCode = 1;
      return;
    }
    writeService(folder, file, checked, { hasStore, server });
    const { errors, contract } = checked;
    const { length } = contract.operations;
    console.log(`${folder} has a service with ${length} operation${length === 1 ? '' : 's'}. Next:

  cd ${folder}
  npm install
  npm start
`);
    if (typeof errors === 'string')
      console.log('Errors do not have the form that the contract declares: write it in src/errors.ts.');
    if (contract.warnings.length > 0)
      console.log(`The contract has warnings (${contract.warnings.length}): "npm run check" lists them.`);
  });

program
  .command('check')
  .description('list all faults and warnings of a contract; exit with 1 if there are faults')
  .argument('<contract>', 'OpenAPI 3.0 or 3.1, in YAML or JSON')
  .option('--strict', 'also exit with 1 if there are warnings')
  .option(
    '--own-errors',
    'the service renders errors itself (renderError), in any form that the contract declares',
  )
  .option('--verbose', 'list every warning; by default, those with the same message are one line')
  .option('--json', 'print the result as JSON to standard output, with every warning')
  .action((file: string, options: Partial<Record<'strict' | 'ownErrors' | 'verbose' | 'json', true>>) => {
    const { strict, ownErrors, verbose, json } = options;
    const checked = checkContract(file, ownErrors ?? false);
    const { faults, warnings } = checked;
    if (json) console.log(JSON.stringify({ faults, warnings }, undefined, 2));
    else printFindings(file, checked, verbose);
    if (faults.length > 0 || (strict && warnings.length > 0)) process.exitCode = 1;
  });

program
  .command('types')
  .description('write the TypeScript types of a contract')
  .argument('<contract>', 'OpenAPI 3.0 or 3.1, in YAML or JSON')
  .argument('[file]', 'the module to write', 'src/types.gen.ts')
  .option('--check', 'write nothing; exit with 1 if the file is not up to date')
  .action((source: string, file: string, { check }: { check?: true }) => {
    const checked = checkContract(source, false);
    if (checked.contract === undefined) {
      printFindings(source, checked);
      process.exitCode = 1;
      return;
    }
    const from = relative(dirname(resolve(file)), resolve(source)).replaceAll('\\', '/');
    const header = `// Generated from ${from} by "${name} types"; do not edit.\n\n`;
    const text = header + renderTypes(checked.contract);
    if (!check) {
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
    } else if (!existsSync(file) || readFileSync(file, 'utf8') !== text)
      fail(`${file} does not match ${source}: run "${name} types ${source} ${file}".`);
  });

program
  .command('migrations')
  .description('write the migrations that the collections of a service lack, for you to review and keep')
  .argument('<module>', 'the compiled module that exports `service`, such as dist/service.js')
  .option('--to <folder>', 'the folder of the migrations, if the service has a copy of it')
  .option('--check', 'write nothing; exit with 1 if a migration is missing')
  .action(async (module: string, { to, check }: { to?: string; check?: true }) => {
    const service = await loadService(module);
    const migrations = to === undefined ? service.migrations : pathToFileURL(`${resolve(to)}/`);
    const { files, faults } = completeMigrations({ ...service, migrations }, check ?? false);
    faults.forEach(fail);
    for (const file of files) {
      if (check) fail(`${file} is missing: run "${name} migrations" without --check, and review it.`);
      else console.log(`${file} is new: review it.`);
    }
  });

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  fail(`${name}: ${error.message}`);
}

function fail(message: string): void {
  console.error(message);
  process.exitCode = 1;
}

/** @throws ConfigError if there is no such module, or it exports no service. */
async function loadService(module: string): Promise<Service> {
  if (!existsSync(module)) throw new ConfigError(`there is no ${module}; compile the service first`);
  const { service } = (await import(pathToFileURL(resolve(module)).href)) as { service?: Service };
  if (service === undefined) throw new ConfigError(`${module} does not export service`);
  return service;
}
