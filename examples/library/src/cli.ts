// Entry point of the command.
import { runCommand } from '#server/process/commands.js';
import { service } from './service.js';

await runCommand(service, process.env, process.argv);
