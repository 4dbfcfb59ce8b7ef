// The command of a service: manages access tokens, and migrates, backs up, restores, exports and imports a store.
import type { Command } from 'commander';
import type { Service } from '../../service/definition.js';
import { migrateStorage } from '../../storage/open.js';
import { backUp } from '../../storage/sqlite/copy.js';
import { version } from '../../base/version.js';
import { addCheckCommand } from './check-command.js';
import { createCommand } from './command-line.js';
import { createStoreCommands } from './store-commands.js';
import { addExportCommand } from './export-command.js';
import { addImportCommand } from './import-command.js';
import { describeFault, statusOf } from '../start-errors.js';
import { addRestoreCommand } from './restore-command.js';
import { addTokenCommands } from './token-commands.js';

/**
 * Runs the command that the arguments name. If it fails, prints why to standard error, and sets the exit status to 1, or
 * to 78 if a setting is wrong; after wrong arguments, exits with 2.
 * @param environment - The environment of the process.
 * @param argv - The arguments of the process, with the program and the script.
 */
export async function runServiceCommand(
  service: Service,
  environment: NodeJS.ProcessEnv,
  argv: readonly string[],
): Promise<void> {
  // A reader such as `head` may close the pipe early.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit();
  });
  const { name, databaseUrl } = service;
  const data = databaseUrl === undefined ? '' : ', and manages its access tokens and data';
  const program = createCommand(service)
    .version(version)
    .description(`Checks the settings of ${name}${data}.`);
  addCheckCommand(program, service, environment);
  if (databaseUrl !== undefined) addStoreCommands(program, service, environment);
  try {
    await program.parseAsync(argv);
  } catch (error) {
    console.error(describeFault(error, service));
    process.exitCode = statusOf(error);
  }
}

function addStoreCommands(program: Command, service: Service, environment: NodeJS.ProcessEnv): void {
  const commands = createStoreCommands(service, environment);
  const migrate = (name: string, description: string, mayCreate: boolean) =>
    program
      .command(name)
      .description(`${description}; safe to run concurrently`)
      .action(async () => {
        const applied = await migrateStorage(service, commands.url(), mayCreate);
        for (const { version, name } of applied) console.error(`Applied migration ${version}: ${name}.`);
        if (applied.length === 0) console.error('The schema is up to date.');
      });
  migrate('init', 'create the store, or bring the schema of an existing one up to date', true);
  migrate(
    'migrate',
    'bring the schema of the store up to date; with NODE_ENV=production, it must exist',
    environment['NODE_ENV'] !== 'production',
  );
  addTokenCommands(program, commands);
  program
    .command('backup')
    .description('copy a SQLite store to a new file while the server runs; for PostgreSQL, use pg_dump')
    .argument('<file>', 'path of the copy; must not exist yet')
    .action(async (file: string) => {
      const bytes = await backUp(service.name, commands.url(), file);
      console.error(`Copied ${bytes} bytes to ${file} and checked the copy.`);
    });
  addRestoreCommand(program, commands);
  addExportCommand(program, commands);
  addImportCommand(program, commands);
}
