// The command-line options of the server, which set environment variables or select how it starts.
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ConfigError } from '../config.js';
import { defaultAddress } from '../defaults.js';
import type { Service } from '../definition.js';

const usage = ({
  name,
  program,
  databaseUrl,
}: Service) => `Usage: ${name} serve [options]   (or: ${nodeCommand(program)} [options])

Runs the server.

Options:
  --host <address>   address to listen on (default: $HOST, or ${defaultAddress.host})
  --port <number>    port to listen on (default: $PORT, or ${defaultAddress.port})
  --database <url>   URL of the store, file:PATH or postgres://… (default: $DATABASE_URL, or ${databaseUrl})
  --dev              development mode: create a first token and write a readable log to the terminal
  -h, --help         display this help

Environment variables configure everything else; docs/configuration.md lists them.
`;

const variables = { host: 'HOST', port: 'PORT', database: 'DATABASE_URL' } as const;

/** The parsed command line. */
interface CommandLine {
  /** The text to print instead of starting the server. */
  readonly help: string | undefined;
  /** Whether to start in development mode. */
  readonly dev: boolean;
  /** The variables that the options set. They take precedence over the process environment. */
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * Parses the command line.
 * @param service - For the help.
 * @param args - Without the program and the script.
 * @throws ConfigError naming an unknown option or one without its value.
 */
export function readCommandLine(service: Service, args: readonly string[]): CommandLine {
  const { values } = parse(args);
  const environment: Record<string, string> = {};
  for (const name of ['host', 'port', 'database'] as const) {
    const value = values[name];
    if (value !== undefined) environment[variables[name]] = value;
  }
  return { help: values.help ? usage(service) : undefined, dev: values.dev ?? false, environment };
}

/** The command that runs a module of the service, for messages: with its path from the current folder. */
export function nodeCommand(module: URL): string {
  return `node ${relative('', fileURLToPath(module))}`;
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        host: { type: 'string' },
        port: { type: 'string' },
        database: { type: 'string' },
        dev: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    const [fault = ''] = (error as Error).message.split(/\. |\n/, 1);
    throw new ConfigError(`${fault.replace(/\.$/, '')}. Run with --help for usage.`);
  }
}
