// Creates and deletes plants continuously through several servers, and checks that no acknowledged write is lost.
//
//   TOKEN=... node scripts/prove/failover-load.js SECONDS URL...
//
// The subjects of the access tokens, which spaces separate, must have no plants.
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { startClients } from '../lib/clients.js';
import { send } from '../lib/request.js';

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
  let last = performance.now();
  let longest = 0;

  const loads = bases.map((base, i) =>
    startClients(base, clients / bases.length, async ({ number, round, send }) => {
      const token = tokens[number % tokens.length] ?? '';
      /**
       * Repeats a request until its outcome is known; a repetition reveals an unknown outcome.
       * @param {import('../lib/request.js').Message} message
       * @param {(status: number, text: string) => boolean} isDone - Whether a response means a known outcome.
       */
      const settle = async (message, isDone) => {
        for (;;) {
          const { status, text } = await send({ token, ...message });
          if (isDone(status, text)) break;
          if (status !== 503) throw new Error(`${message.method} ${message.path} returned ${status} ${text}`);
          if (text.includes('50302')) counts.unknown++;
          else counts.unavailable++;
          await pause(20);
        }
        const length = performance.now() - last;
        last += length;
        longest = Math.max(longest, length);
        const since = new Date(Date.now() - length).toISOString().slice(11, 23);
        if (length >= shortest) console.log(`${since}: no success for ${(length / 1_000).toFixed(2)} s`);
      };
      const id = round * clients + number * bases.length + i;
      const body = JSON.stringify({ id, name: `${id}` });
      const isCreated = (/** @type {number} */ status, /** @type {string} */ text) =>
        status === 200 || (status === 400 && text.includes('40011'));
      await settle({ method: 'POST', path: '/plants', body }, isCreated);
      expected.set(id, true);
      counts.created++;
      if (id % 3 !== 0) return;
      await settle({ method: 'DELETE', path: `/plants/${id}` }, (status) => status === 204 || status === 404);
      expected.set(id, false);
      counts.deleted++;
    }),
  );
  return {
    counts,
    /** Ends the load; counts the acknowledged plants that are missing, and the deleted plants that exist. */
    async finish() {
      await Promise.all(loads.map((load) => load.end()));
      console.log(
        `${counts.created} creates and ${counts.deleted} deletes acknowledged; ` +
          `${counts.unavailable} responses "no effect", ${counts.unknown} "outcome unknown"; ` +
          `at most ${Math.round(longest)} ms without a success`,
      );
      const names = new Set();
      for (const token of tokens) {
        const { text } = await send(bases[0] ?? '', { path: '/plants', token });
        for (const { name } of JSON.parse(text)) names.add(name);
      }
      const wrong = (/** @type {boolean} */ is) =>
        [...expected].filter(([id, there]) => there === is && names.has(`${id}`) !== is).length;
      const result = { lost: wrong(true), back: wrong(false) };
      console.log(`acknowledged and lost: ${result.lost}; deleted and back: ${result.back}`);
      return result;
    },
  };
}

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
