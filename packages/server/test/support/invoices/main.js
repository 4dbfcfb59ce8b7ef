// The server of the invoices and, with arguments, their command.
import { runCommand, start } from '../../../dist/start.js';

const run = process.argv.length > 2 ? runCommand : start;
await run(() => import('./service.js'));
