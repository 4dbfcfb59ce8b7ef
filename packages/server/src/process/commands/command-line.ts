// The command lines of the server and of the command.
import { Command } from 'commander';
import type { Service } from '../../service/definition.js';
import { nodeCommand } from '../../base/node-command.js';

/** The options of the server. */
export interface ServerOptions {
  /** Whether to start in development mode. */
  readonly dev?: boolean;
}

/** The exit status of a command with wrong arguments. */
const usageStatus = 2;

/** Creates a command of a service, whose errors begin with the name of the service. Wrong arguments end the process. */
export function createCommand({ name }: Pick<Service, 'name'>, command = name): Command {
  return new Command(command)
    .showHelpAfterError('Run with --help for usage.')
    .configureOutput({
      outputError: (text, write) => {
        write(text.replace(/^error: /, `${name}: `));
      },
    })
    .exitOverride(({ exitCode }) => {
      // Showing the help or the version is a success.
      process.exit(exitCode === 0 ? 0 : usageStatus);
    });
}

/** Parses the command line of the server. Exits after the help, and if it is not valid. @param args - Without the script. */
export function readCommandLine(service: Service, args: readonly string[]): ServerOptions {
  const first = service.databaseUrl === undefined ? '' : ', and create a first token';
  return createCommand(service, nodeCommand(service.program))
    .description('run the server; its settings are environment variables')
    .option('--dev', `development mode: write a readable log (with pino-pretty)${first}`)
    .parse(args, { from: 'user' })
    .opts();
}
