#!/usr/bin/env node
// Entry point of the command.
import { runCommand } from './process/commands.js';
import { service } from './service.js';

await runCommand(service, process.env, process.argv);
