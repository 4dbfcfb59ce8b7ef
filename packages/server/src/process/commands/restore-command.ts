// The command that puts a backup in the place of a SQLite store.
import type { Command } from 'commander';
import { restore } from '../../storage/sqlite/restore.js';
import type { StoreCommands } from './store-commands.js';

interface RestoreOptions {
  dryRun?: boolean;
  keepTokens?: boolean;
}

/** Adds the command. */
export function addRestoreCommand(program: Command, { service, url }: StoreCommands): void {
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
    .action(async (file: string, { dryRun = false, keepTokens = false }: RestoreOptions) => {
      const options = { isDryRun: dryRun, keepsTokens: keepTokens };
      const { revokedTokens, fault, saved, aside } = await restore(service, url(), file, options);
      if (fault !== undefined) console.error(fault);
      console.error(
        dryRun
          ? `${file} can be restored. ${revokedTokens} tokens of it would be revoked.`
          : `Restored ${file}. ${revokedTokens} tokens of the backup were revoked.`,
      );
      if (saved !== undefined)
        console.error(`To undo this, run the same command with: restore ${saved} --keep-tokens`);
      if (aside !== undefined) console.error(`The damaged store that was there is now called ${aside}.`);
    });
}
