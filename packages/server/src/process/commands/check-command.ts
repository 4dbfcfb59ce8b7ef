// The command that checks the settings, the certificate and the store of a start, without serving.
import type { Command } from 'commander';
import { readConfig, type Config } from '../config.js';
import type { Service } from '../../service/definition.js';
import { messageOf } from '../../storage/core/interface.js';
import { checkStorage, describeStore } from '../../storage/open.js';
import { CommandError, statusOf } from '../start-errors.js';
import { expiryOf, readTls } from '../tls.js';

/** Adds the command `check`. With valid settings, it lists all other faults; the exit status is the highest of theirs. */
export function addCheckCommand(program: Command, service: Service, environment: NodeJS.ProcessEnv): void {
  program
    .command('check')
    .description('check settings, certificate and store without serving; changes nothing')
    .action(async () => {
      const config = readConfig(environment, service);
      const { DATABASE_URL: url } = config;
      const results = await Promise.allSettled([
        Promise.resolve(config).then(checkCertificate),
        checkStorage(service, url),
      ]);
      const faults = results.flatMap((result) =>
        result.status === 'rejected' ? [result.reason as unknown] : [],
      );
      if (faults.length > 0) {
        const status = Math.max(...faults.map(statusOf));
        throw new CommandError(faults.map(messageOf).join('\n'), { status });
      }
      const store = service.databaseUrl === undefined ? '' : ` Store: ${describeStore(url)}`;
      console.error(`${service.name} can start.${store}`);
    });
}

/** @throws Error when the certificate, if there is one, is not valid. */
function checkCertificate(config: Config): void {
  const tls = readTls(config);
  const end = tls && expiryOf(tls.cert);
  if (end !== undefined && end <= new Date())
    throw new Error(`TLS_CERT_FILE: the certificate expired on ${end.toISOString()}: renew it`);
}
