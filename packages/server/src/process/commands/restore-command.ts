// The command that puts a backup in the place of a SQLite store.
import type { Command } from 'commander';
import { restore } from '../../storage/sqlite/restore.js';
import type { StoreCommands } from './store-commands.js';

interface RestoreOptions {
  dryRun?: true;
  keepTokens?: true;
}

/** Adds the command. */
export function addRestoreCommand(program: Command, commands: StoreCommands): void {
  program
    .command('restore')
    .description(
      'replace what is in a SQLite store by a backup, and keep a copy of what was there; stop the server first. ' +
        'For PostgreSQL, use pg_restore',
    )
    .argument('<file>', 'path of the backup, such as one of "backup", or of a copy of a store')
    .option('--dry-run', 'only check that the backup can be restored; the server may run')
    .option(
      '--keep-tokens',
      'keep tokens of the backup valid that the present store does not have; otherwise they are revoked',
    )
    .action(async (file: string, options: RestoreOptions) => {
      const { dryRun: isDryRun = false, keepTokens: keepsTokens = false } = options;
      const { revokedTokens, fault, saved, aside } = await restore(commands.service, commands.url(), file, {
        isDryRun,
        keepsTokens,
      });
      if (fault !== undefined) console.error(fault);
      const count = `${revokedTokens} tokens of ${isDryRun ? 'it would be' : 'the backup were'} revoked`;
      const advice = revokedTokens === 0 ? '' : adviceOf(isDryRun && fault !== undefined, keepsTokens);
      console.error(`${isDryRun ? `${file} can be restored` : `Restored ${file}`}. ${count}${advice}.`);
      if (saved !== undefined)
        console.error(`To undo this, run the same command with: restore ${saved} --keep-tokens`);
      if (aside !== undefined) console.error(`The damaged store that was there is now called ${aside}.`);
    });
}

/** Says how tokens can stay valid. @param isUnsure - Whether it cannot be known which of them were revoked. */
function adviceOf(isUnsure: boolean, keepsTokens: boolean): string {
  if (keepsTokens) return ', since the store has them as revoked: to keep them, first move its files away';
  return isUnsure ? ', for good: add --keep-tokens if none was revoked since the backup' : '';
}
