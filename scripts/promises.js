// Prints which test shows each promise of the pages that callers and operators rely on. Exits with 1 if a page no longer
// has a promise, or a test is gone: then the row names the test that shows it now, or goes together with the promise.
import { readFileSync } from 'node:fs';

const client = 'packages/client/test/client.test.ts';
const plants = 'test/plants/plants.test.ts';
const server = 'packages/server/test/';
const limits = `${server}http/admission/limits.test.ts`;
const authentication = `${server}http/security/authentication.test.ts`;

/**
 * The promises of each page: its words, which stand for what follows them, and the file and the names of the tests.
 * @type {Record<string, readonly (readonly [words: string, file: string, ...names: string[]])[]>}
 */
const promises = {
  'README.md': [
    ['exact to 64 bits', plants, 'createPlant distinguishes all 64-bit ids, however they are written'],
    ['errors included', plants, "each operation's examples of errors are what it responds"],
    ['errors included', `${server}testing.test.ts`, 'a response that the contract does not have is refused'],
    [
      'survives a crash',
      `${server}process/process.test.ts`,
      'acknowledged writes survive SIGKILL at any moment',
    ],
    ['power failure', `${server}storage/sqlite.test.ts`, "the writer's own connection syncs every commit"],
    ['share a commit', `${server}storage/storage.test.ts`, 'share a queue and a commit, but no document'],
    ['any length are streamed', plants, 'listPlants returns every plant of a list of many pages once'],
    ['have budgets', limits, 'the memory of all lists is bounded'],
    ['have budgets', `${server}storage/storage.test.ts`, 'a queue is bounded in bytes too'],
    [
      'have budgets',
      `${server}process/resources.test.ts`,
      '64 MiB of heap are enough for lists and bodies of any size',
    ],
    ["see another's plants", plants, 'callers never see each other'],
  ],
  'docs/limits.md': [
    ['ordered by id', plants, 'listPlants returns the smallest ids first, up to the limit'],
    ['Length of a body', plants, 'createPlant rejects other media types, encodings and lengths'],
    ['MAX_CONNECTIONS', limits, 'connections beyond the limit are closed immediately'],
    ['RATE_LIMIT_PER_SUBJECT', limits, 'the requests of a subject per window are limited'],
    ['MEMORY_BUDGET_BYTES', limits, 'the memory of all lists is bounded'],
    [
      'MEMORY_BUDGET_BYTES',
      `${server}http/admission/memory-budget.test.ts`,
      'a memory budget is never exceeded',
    ],
    [
      'REQUEST_TIMEOUT_SECONDS',
      `${server}http/connection/connection.test.ts`,
      'a request that does not arrive in time returns 408',
    ],
    [
      'to read a page of a list',
      `${server}http/connection/connection.test.ts`,
      'listPlants disconnects a stalled reader',
    ],
    [
      'The API',
      'test/contract/contract.test.ts',
      'the contract is compatible with the baseline',
      'every kind of breaking change is detected',
    ],
    [
      'the exit statuses',
      `${server}process/commands.test.ts`,
      'the command reports invalid usage in one line, and exits with a status',
    ],
    [
      'Variables and metrics',
      `${server}process/configuration.test.ts`,
      'every variable is checked and documented',
    ],
    [
      'Variables and metrics',
      `${server}observability/observability.test.ts`,
      'docs/monitor.md lists exactly our metrics',
    ],
    [
      'opens the stores of all older ones',
      `${server}storage/storage.test.ts`,
      'a later release opens a store on',
    ],
    [
      'plant-store-client',
      'test/package.test.ts',
      'has types for every module resolution, and a README with examples that compile',
    ],
    [
      'Defaults may change',
      'test/docs/api-guide.test.ts',
      'docs/limits.md has the defaults of the configuration',
    ],
  ],
  'SECURITY.md': [
    ["see, change or detect another subject's plants", plants, 'callers never see each other'],
    [
      'invalid, expired or revoked',
      authentication,
      'a token works immediately, and only until it expires or is revoked',
      'every operation returns 401 invalid_token for an invalid token',
    ],
    ['read a secret', authentication, 'no secret is in the log'],
    ['read a secret', plants, 'a storage failure returns 503 or 500, without its cause'],
    [
      'linear time',
      `${server}http/request/parsers.test.ts`,
      'bodies are parsed in a time that is linear in their length',
    ],
    [
      'linear time',
      `${server}contract/patterns.test.ts`,
      'a pattern takes linear time for texts that backtracking never finishes',
    ],
    [
      'RATE_LIMIT_PER_ADDRESS',
      limits,
      'the requests of an address per window are limited, with or without a token',
      'every request of an address is counted',
    ],
    [
      'stored as hashes',
      `${server}storage/storage.test.ts`,
      'tokens are stored, found by their hashes, listed and revoked',
    ],
    ['counts attempts', `${server}http/security/login.test.ts`, 'attempts for a name are limited'],
    ['missing documents and those', plants, 'deletePlant deletes a plant once, and returns 404 otherwise'],
    [
      'idempotency keys belong',
      `${server}storage/idempotency.test.ts`,
      'a key belongs to its caller, also over shared documents',
    ],
    [
      'issuer, audience, algorithm',
      `${server}http/security/identity-provider.test.ts`,
      'whatever has the form of a JWT is accepted or refused with a 401',
    ],
    [
      'subjects of different schemes',
      `${server}http/security/schemes.test.ts`,
      'a contract with schemes of every kind is served, and their subjects differ',
    ],
    [
      'Cache-Control',
      `${server}http/response.test.ts`,
      'no shared cache keeps a response to a caller, and none keeps an error',
    ],
    [
      'a secret in an argument',
      'test/docs/api-guide.test.ts',
      'no command of a document or script has a secret in its arguments',
    ],
    [
      'no text of it becomes code',
      `${server}contract/hostile.test.ts`,
      'nothing of a contract runs',
      'nothing is fetched or read because a contract says so',
    ],
    [
      'systemd unit is confined',
      'test/deploy/deploy.test.ts',
      'the systemd units are valid and restrict privileges',
    ],
    [
      'a role with few privileges',
      `${server}storage/postgres.test.ts`,
      'a role with exactly the documented grants can do everything',
    ],
    ['no unpublished package name', 'test/package.test.ts', 'runs alone, without a registry'],
  ],
  'docs/api.md': [
    ["only that subject's plants", plants, 'callers never see each other'],
    [
      '`plants:write`',
      authentication,
      'every operation returns 403 insufficient_scope for a token without the required scope',
    ],
    [
      'unique among your plants',
      plants,
      'createPlant rejects an existing id, with a separate code if the plant is identical',
    ],
    [
      'the plant is on disk',
      `${server}process/process.test.ts`,
      'acknowledged writes survive SIGKILL at any moment',
    ],
    ['ascending order of ids', plants, 'listPlants returns the smallest ids first, up to the limit'],
    ['contain no ids', plants, 'createPlant stores the plant and returns it without its id'],
    ['204, or 404', plants, 'deletePlant deletes a plant once, and returns 404 otherwise'],
    [
      'status of 400 or above has a body',
      `${server}http/connection/connection.test.ts`,
      'malformed HTTP returns an Error body',
    ],
    [
      'status of 400 or above has a body',
      plants,
      'unknown paths and methods are rejected before anything else is checked',
    ],
    [
      'never creates a second plant',
      client,
      'a create whose response is lost succeeds, and creates one plant',
    ],
    ['404 to a repeated delete', client, 'a delete whose response is lost succeeds'],
    [
      'the request had no effect',
      client,
      '503 is retried after Retry-After, and its statement about the effect is trusted',
    ],
    ['A list that is cut off', client, 'a truncated list is requested again, and never returned in part'],
    ['lists all codes', authentication, 'the error codes of the contract are those of the catalogue'],
    ['`X-Request-Id`', client, 'every response and every error has the request id of the service'],
    ['9 levels', limits, 'createPlant rejects a long body that is deeply nested'],
    [
      'works with every 1.x',
      'test/contract/contract.test.ts',
      'the contract is compatible with the baseline',
    ],
    [
      'The examples read them',
      'test/docs/api-guide.test.ts',
      'every example produces the output in the guide',
    ],
  ],
};

const root = new URL('..', import.meta.url);
const read = (/** @type {string} */ path) => readFileSync(new URL(path, root), 'utf8');

/** The names of the tests of a file, those of a loop with their variables. @param {string} file */
function namesIn(file) {
  const titles = /\bt\.test\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`([^`]*)`)/g;
  return [...read(file).matchAll(titles)].map(
    ([, ...kinds]) => kinds.find(Boolean)?.replaceAll("\\'", "'") ?? '',
  );
}

for (const [page, rows] of Object.entries(promises)) {
  const text = read(page).replaceAll(/\s+/g, ' ');
  console.log(`\n${page}`);
  for (const [words, file, ...names] of rows) {
    console.log(`  ${words}`);
    if (!text.includes(words)) fail(`${page} does not say "${words}" any longer`);
    for (const name of names) {
      console.log(`    ${file}: ${name}`);
      if (!namesIn(file).some((title) => title.includes(name)))
        fail(`${page} promises "${words}", but ${file} has no test "${name}"`);
    }
  }
}

/** @param {string} fault */
function fail(fault) {
  console.error(`${fault}: change its row in scripts/promises.js, or remove it together with the promise.`);
  process.exitCode = 1;
}
