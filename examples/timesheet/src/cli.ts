// Entry point of the command.
import { runCommand } from 'contract-server/start';

await runCommand(() => import('./service.js'));
