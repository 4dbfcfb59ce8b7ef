// Creates, lists and deletes plants continuously through several servers, and checks that there is an order of all
// requests that explains every response: that no acknowledged write is lost, and none takes effect twice.
//
//   node scripts/prove/failover-load.js SECONDS URL
//
// Starts two servers on a PostgreSQL database, in which the subject "prover" has no plants.
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { plantStore, startServer } from '../../packages/server/test/support/server-process.js';
import { Subject } from './threads-documents.js';
import { Load } from './threads-load.js';

const clients = 48;
/** The number of plants that the clients share at a time. */
const plants = 200;

/**
 * Starts the load.
 * @param {string[]} origins - The servers' URLs.
 * @param {string[]} tokens - Tokens whose subjects have no plants.
 */
export function startLoad(origins, tokens) {
  /** @type {string[]} */
  const violations = [];
  const subjects = tokens.map(
    (token, i) => new Subject(`subject ${i}`, token, { plants: plants / tokens.length }),
  );
  const violation = (/** @type {string} */ what) => violations.push(what);
  const load = new Load({ origins, subjects, clients: clients / tokens.length, violation });
  return {
    load,
    /** Ends the load, and compares all plants. @returns {Promise<number>} The number of broken promises. */
    async finish() {
      await load.end();
      const { longestWithoutWrite } = load;
      await load.verify();
      const { acknowledged, refused, unknown } = load;
      console.log(
        `${acknowledged} writes acknowledged, ${refused} refused without effect, ${unknown} with unknown outcome; ` +
          `at most ${Math.round(longestWithoutWrite)} ms without one`,
      );
      console.log(`lost, doubled or out of order: ${violations.length}`);
      for (const what of violations.slice(0, 3)) console.log(`  ${what.slice(0, 300)}`);
      return violations.length;
    },
  };
}

/**
 * Starts servers, which are ended with the load.
 * @param {string[]} urls - For each server, that of the database.
 * @param {string[]} [subjects] - They must have no plants.
 */
export async function startServersUnderLoad(urls, subjects = ['prover']) {
  const [url = ''] = urls;
  await plantStore(url, 'migrate');
  const tokens = [];
  for (const subject of subjects) tokens.push(await plantStore(url, 'token', 'create', subject));
  const servers = await Promise.all(
    // A slow machine must not cause 503s here.
    urls.map((url) => startServer({ env: { DATABASE_URL: url, MAX_EVENT_LOOP_DELAY_MS: '0' } })),
  );
  const { load, finish } = startLoad(
    servers.map(({ origin }) => origin),
    tokens,
  );
  const end = async () => {
    const broken = await finish();
    await Promise.all(servers.map((server) => server.end()));
    return broken;
  };
  return { load, finish: end };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [seconds, url] = process.argv.slice(2);
  if (!(Number(seconds) > 0) || url === undefined) {
    console.error('usage: node scripts/prove/failover-load.js SECONDS URL');
    process.exit(2);
  }
  const { finish } = await startServersUnderLoad([url, url]);
  console.log('two servers under load');
  await pause(Number(seconds) * 1_000);
  process.exit((await finish()) > 0 ? 1 : 0);
}
