// The URL of a database on PostgreSQL. The driver ignores what it does not know, even if that was meant to turn on TLS.
import { accessSync, constants } from 'node:fs';
import { closestMatch } from 'leven';

/** The parameters that a URL may have. */
const parameters = ['application_name', 'options', 'sslcert', 'sslkey', 'sslmode', 'sslrootcert'];
/** The values of `sslmode`: those of libpq. */
const sslModes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];

/**
 * Checks a URL, and returns it as the driver needs it: TLS with any mode but `disable` verifies the certificate and its
 * host. The driver does the same with most modes, but prints a warning.
 * @throws Error that says what the URL must be. It does not contain the URL, since that may have a password.
 */
export function postgresUrl(value: string): string {
  // After the host, there is no @ and no fragment: they belong to a password that is not escaped.
  const [, authority = '/'] = /^\w+:\/\/([^/?#]*)(?:[/?][^@#]*)?$/.exec(value) ?? [];
  if (authority.replace(/^.*@/, '').includes(','))
    throw new Error('must name one host, which always leads to the primary');
  if (authority.endsWith('@'))
    throw new Error('must name a host, or for a socket its folder, with %2F for each /');
  if (authority === '/' || !URL.canParse(value))
    throw new Error(
      'must be a URL: in its user and password, write %2F for /, %3F for ?, %23 for #, %40 for @, %3A for : and %25 for %',
    );
  const url = new URL(value);
  for (const [name, setting] of url.searchParams) {
    if (!parameters.includes(name)) throw new Error(`must have no parameter ${name}: ${remedyFor(name)}`);
    if (setting === '') throw new Error(`must have a value for its parameter ${name}`);
    // The driver would find only with each connection that it cannot be read.
    if (/cert$|key$/.test(name)) accessSync(setting, constants.R_OK);
  }
  const mode = url.searchParams.get('sslmode') ?? 'disable';
  if (!sslModes.includes(mode)) throw new Error(`must have an sslmode of ${sslModes.join(', ')}`);
  if (mode === 'disable') return value;
  url.searchParams.set('sslmode', 'verify-full');
  return url.href;
}

/** Says what to write instead of a parameter that does not exist. */
function remedyFor(name: string): string {
  const meant = /^(ssl|tls)$/i.test(name)
    ? 'sslmode'
    : closestMatch(name.toLowerCase(), parameters, { maxDistance: 2 });
  return meant === undefined ? `only ${parameters.join(', ')} exist` : `use ${meant}`;
}
