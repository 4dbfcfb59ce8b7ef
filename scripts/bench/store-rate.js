// Measures how fast the store alone produces a long list as JSON, and prints lists per second.
import { performance } from 'node:perf_hooks';
import { openStore } from '../lib/store.js';

const [url = '', subject = '', time = '1000'] = process.argv.slice(2);
const storage = await openStore(url);
const begin = performance.now();
let lists = 0;
do {
  /** @type {bigint | undefined} */
  let after;
  do {
    after = (await storage.plants.list(subject, { after, limit: Infinity })).next;
  } while (after !== undefined);
  lists++;
} while (performance.now() - begin < Number(time));
console.log((lists * 1000) / (performance.now() - begin));
await storage.close();
