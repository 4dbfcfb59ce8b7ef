// Creates, lists and deletes plants continuously through several servers, and checks that there is an order of all
// requests that explains every response: that no acknowledged write is lost, and none takes effect twice.
//
//   TOKEN=... node scripts/prove/failover-load.js SECONDS URL...
//
// The subjects of the access tokens, which spaces separate, must have no plants.
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Subject } from './workers-documents.js';
import { Load } from './workers-load.js';

const clients = 48;
/** How many plants the clients share at a time. */
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

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [seconds, ...origins] = process.argv.slice(2);
  const tokens = process.env['TOKEN']?.split(' ').filter(Boolean) ?? [];
  if (!(Number(seconds) > 0) || origins.length === 0 || tokens.length === 0) {
    console.error('usage: TOKEN=... node scripts/prove/failover-load.js SECONDS URL...');
    process.exit(2);
  }
  const { finish } = startLoad(origins, tokens);
  await pause(Number(seconds) * 1_000);
  process.exit((await finish()) > 0 ? 1 : 0);
}
