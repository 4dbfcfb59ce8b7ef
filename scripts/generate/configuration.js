// Writes docs/configuration.md, the reference of all environment variables, from the built packages/server/src/process/config.ts.
import { descriptions, variables } from '../../packages/server/dist/process/config.js';
import { service } from '../../dist/service.js';
import { writeGenerated } from '../lib/generated.js';

/** The heading before a variable, in the order of packages/server/src/process/config.ts. @type {Record<string, string>} */
const sections = {
  HOST: 'Listeners and processes',
  DATABASE_URL: 'Storage',
  LOG_LEVEL: 'Environment',
  OIDC_ISSUER: 'Identity provider',
  TRUST_PROXY: 'Proxies, browsers and TLS',
  DRAIN_SECONDS: 'Start and shutdown',
  BODY_LIMIT_BYTES: 'Limits and timeouts',
  RATE_LIMIT_PER_SUBJECT: 'Rate limits',
  DATABASE_POOL_SIZE: 'Storage limits',
};

for (const [file, url] of [
  ['docs/configuration.md', service.databaseUrl],
  ['packages/server/docs/configuration.md', undefined],
])
  await writeGenerated(String(file), page(url));

/**
 * The page of a service, or of any.
 * @param {string | undefined} url - The default of DATABASE_URL.
 */
function page(url) {
  const entries = Object.entries(descriptions).map(([name, desc]) => {
    const { read, default: fixed } = variables[/** @type {keyof typeof variables} */ (name)];
    const value = name === 'DATABASE_URL' ? url : fixed;
    const heading = name in sections ? `\n## ${sections[name]}\n\n` : '';
    const known = String(value ?? '');
    const facts = [known && `default \`${known}\``, rangeOf(read)].filter(Boolean).join(', ');
    return `${heading}- \`${name}\`${facts && ` (${facts})`}: ${desc}.`;
  });
  return `<!-- Written by "npm run generate" from packages/server/src/process/config.ts; do not edit. -->

# Configuration

Every setting is an environment variable. For commands, the option \`--database\` takes precedence over \`DATABASE_URL\`. All settings are validated at startup, and all errors are reported together. An empty value counts as unset. A name that differs
from one of these only in case or in the order of letters, or a name of at least six characters that differs by one letter, stops
the start and each command. Not compared, since PostgreSQL and Kubernetes have such variables: names that begin with \`PG\`, and
names with \`_PORT\` or \`_SERVICE\` at the end or before another \`_\`.

To keep the settings in a file, write one \`NAME=value\` per line, without quotes or comments, and start the server with
\`node --env-file=FILE dist/main.js\` or \`docker run --env-file FILE\`. A password in a URL belongs there: every user of the machine
can read the arguments of a command, also that of \`--database\`.
${entries.join('\n')}
`;
}

/**
 * The numbers that a variable accepts, as its own refusal of any text says; empty for one that is no number.
 * @param {(text: string) => unknown} read
 */
function rangeOf(read) {
  try {
    read('no number');
  } catch (error) {
    const [, min = '', max = ''] = /from (\d+) to (\d+)$/.exec(String(error)) ?? [];
    return min && `${min} to ${max}`;
  }
  return '';
}
