// The options of the server's command line: each stands for a variable of the environment, or says how to start.
import { parseArgs } from 'node:util';
import { ConfigError } from '../config.js';

const usage = `Usage: plant-store serve [options]   (or: node dist/main.js [options])

Runs the server.

Options:
  --host ADDRESS     address to listen on, instead of HOST (default: 127.0.0.1)
  --port NUMBER      port to listen on, instead of PORT (default: 3000)
  --database URL     store, instead of DATABASE_URL: file:PATH or postgres://… (default: file:./data/plants.db)
  --dev              for a developer's machine: create a first token, and log in plain text in a terminal
  --help             show this help

Environment variables configure everything else; docs/configuration.md lists them.
`;

const variables = { host: 'HOST', port: 'PORT', database: 'DATABASE_URL' } as const;

/** What the command line asks for. */
export interface CommandLine {
  /** The text to show instead of starting. */
  readonly help: string | undefined;
  /** Whether the server is a developer's own. */
  readonly dev: boolean;
  /** Variables that it sets, before those of the environment. */
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * Reads the command line.
 * @param args - Without the program and the script.
 * @throws ConfigError naming what is not known or lacks its value.
 */
export function readCommandLine(args: readonly string[]): CommandLine {
  const { values } = parse(args);
  const environment: Record<string, string> = {};
  for (const name of ['host', 'port', 'database'] as const) {
    const value = values[name];
    if (value !== undefined) environment[variables[name]] = value;
  }
  return { help: values.help ? usage : undefined, dev: values.dev ?? false, environment };
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
