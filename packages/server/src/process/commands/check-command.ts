// The command that checks everything that a start depends on, without serving.
import type { Command } from 'commander';
import { readConfig, type Config } from '../config.js';
import type { Service } from '../../service/definition.js';
import { messageOf } from '../../storage/core/interface.js';
import { checkStorage, describeStore } from '../../storage/open.js';
import { identityProvider } from '../configured-service.js';
import { CommandError, statusOf } from '../start-errors.js';
import { expiryOf, readTls } from '../tls.js';

/** Maximum time for the identity provider to respond, in ms. */
const keysTime = 10_000;

/** Adds the command `check`. With valid settings, it lists all other faults; the exit status is the highest of theirs. */
export function addCheckCommand(program: Command, service: Service, environment: NodeJS.ProcessEnv): void {
  program
    .command('check')
    .description('check settings, certificate, store and identity provider without serving; changes nothing')
    .action(async () => {
      const config = readConfig(environment, service);
      const results = await Promise.allSettled([
        Promise.resolve(config).then(checkCertificate),
        checkStorage(service, config.DATABASE_URL),
        checkKeys(config),
      ]);
      const faults = results.flatMap((result) =>
        result.status === 'rejected' ? [result.reason as unknown] : [],
      );
      if (faults.length > 0)
        throw new CommandError(faults.map(messageOf).join('\n'), {
          status: Math.max(...faults.map(statusOf)),
        });
      const store = service.databaseUrl === undefined ? '' : ` Store: ${describeStore(config.DATABASE_URL)}`;
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

/** @throws Error when the identity provider, if there is one, does not give its keys. */
async function checkKeys(config: Config): Promise<void> {
  const provider = identityProvider(config);
  if (provider === undefined) return;
  const { createRemoteJWKSet } = await import('jose');
  const keySet = createRemoteJWKSet(new URL(provider.jwksUrl), { timeoutDuration: keysTime });
  try {
    await keySet.reload();
    if (keySet.jwks()?.keys.length === 0) throw new Error('there are no keys');
  } catch (error) {
    const { cause } = error as Error;
    throw new Error(`OIDC_JWKS_URL: ${messageOf(cause ?? error)}`, { cause: error });
  }
}
