// Creates and deletes plants continuously through several servers, and checks that no acknowledged write is lost.
//
//   TOKEN=... node scripts/prove/failover-load.js SECONDS URL...
//
// The subjects of the access tokens, which spaces separate, must have no plants.
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const clients = 48;
/** The shortest time without a success that is reported, in ms. */
const shortest = 500;

/**
 * Starts the load.
 * @param {string[]} bases - The servers' URLs.
 * @param {string[]} tokens - Tokens whose subjects have no plants.
 */
export function startLoad(bases, tokens) {
  /** Whether each plant must exist in the end, by id. @type {Map<number, boolean>} */
  const expected = new Map();
  const counts = { created: 0, deleted: 0, unavailable: 0, unknown: 0 };
  /**
   * The times without any success: the start of each, in ms since the epoch, and its length in ms.
   * @type {{ at: number, length: number }[]}
   */
  const silences = [];
  let last = performance.now();
  let longest = 0;
  let running = true;

  /**
   * Repeats a request until its outcome is known; a repetition reveals an unknown outcome.
   * @param {string} base
   * @param {string} token
   * @param {string} path
   * @param {RequestInit} init
   * @param {readonly number[]} done - The statuses that mean a known outcome.
   */
  async function settle(base, token, path, init, done) {
    for (;;) {
      const response = await globalThis.fetch(base + path, {
        ...init,
        headers: { ...bearer(token), ...(init.body && { 'content-type': 'application/json' }) },
      });
      const text = await response.text();
      if (done.includes(response.status) && (response.status !== 400 || text.includes('40011'))) break;
      if (response.status !== 503)
        throw new Error(`${init.method} ${path} returned ${response.status} ${text}`);
      if (text.includes('50302')) counts.unknown++;
      else counts.unavailable++;
      await pause(20);
    }
    const length = performance.now() - last;
    last += length;
    longest = Math.max(longest, length);
    if (length >= shortest) silences.push({ at: Date.now() - length, length });
  }

  /** Creates plants, and deletes some, until the load ends. @param {number} client */
  async function run(client) {
    const base = /** @type {string} */ (bases[client % bases.length]);
    const token = /** @type {string} */ (tokens[Math.floor(client / bases.length) % tokens.length]);
    for (let id = client; running; id += clients) {
      const body = JSON.stringify({ id, name: `${id}` });
      await settle(base, token, '/plants', { method: 'POST', body }, [200, 400]);
      expected.set(id, true);
      counts.created++;
      if (id % 3 !== 0) continue;
      await settle(base, token, `/plants/${id}`, { method: 'DELETE' }, [204, 404]);
      expected.set(id, false);
      counts.deleted++;
    }
  }

  const ended = Promise.all(Array.from({ length: clients }, (_, client) => run(client)));
  // finish() reports a failure.
  ended.catch(() => undefined);
  return {
    counts,
    /** Ends the load; counts the acknowledged plants that are missing, and the deleted plants that exist. */
    async finish() {
      running = false;
      await ended;
      console.log(
        `${counts.created} creates and ${counts.deleted} deletes acknowledged; ` +
          `${counts.unavailable} responses "no effect", ${counts.unknown} "outcome unknown"; ` +
          `at most ${Math.round(longest)} ms without a success`,
      );
      for (const { at, length } of silences) {
        const time = new Date(at).toISOString().slice(11, 23);
        console.log(`${time}: no success for ${(length / 1_000).toFixed(2)} s`);
      }
      return compare(bases[0] ?? '', tokens, expected);
    },
  };
}

/**
 * Compares the lists with what must exist.
 * @param {string} base
 * @param {string[]} tokens
 * @param {Map<number, boolean>} expected
 */
async function compare(base, tokens, expected) {
  const names = new Set();
  for (const token of tokens) {
    const list = await globalThis.fetch(`${base}/plants`, { headers: bearer(token) });
    for (const { name } of /** @type {{ name: string }[]} */ (await list.json())) names.add(name);
  }
  const wrong = (/** @type {boolean} */ is) =>
    [...expected].filter(([id, there]) => there === is && names.has(`${id}`) !== is).length;
  const result = { lost: wrong(true), back: wrong(false) };
  console.log(`acknowledged and lost: ${result.lost}; deleted and back: ${result.back}`);
  return result;
}

/** @param {string} token */
const bearer = (token) => ({ authorization: `Bearer ${token}` });

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [seconds, ...bases] = process.argv.slice(2);
  const tokens = process.env['TOKEN']?.split(' ').filter(Boolean) ?? [];
  if (!(Number(seconds) > 0) || bases.length === 0 || tokens.length === 0) {
    console.error('usage: TOKEN=... node scripts/prove/failover-load.js SECONDS URL...');
    process.exit(2);
  }
  const load = startLoad(bases, tokens);
  await pause(Number(seconds) * 1_000);
  const { lost, back } = await load.finish();
  process.exit(lost + back > 0 ? 1 : 0);
}
