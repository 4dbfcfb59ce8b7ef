// Checks that a server keeps its rate when there are far more requests than it can serve at a time, from several callers.
//
//   npm run prove:overload
//
// Each connection sends its next request when it has a response. What a few connections get shows what the server can do.
import { startServer } from '../../packages/server/test/support/server-process.js';
import { putUnderLoad, requestText } from '../bench/load.js';

const callers = 8;
const few = 64;
const many = 500;
const rounds = 5;
/**
 * The least share of its rate, and the longest time of 99 % of the requests, in times that of the few. Requests that live
 * longer cost more: garbage is collected while they are in progress.
 */
const leastShare = 0.25;
const mostTimes = (5 * many) / few;

const server = await startServer({ measured: true });
const tokens = await Promise.all(Array.from({ length: callers }, (_, i) => server.createToken(`${i}`)));
let sent = 0;
/** @param {number} connections */
const list = (connections) =>
  putUnderLoad({
    ...{ port: server.port, connections, time: 2_000 },
    next: () => requestText({ method: 'GET', path: '/plants', token: tokens[sent++ % callers] }),
  });
await list(few);
const results = [];
for (let round = 0; round < rounds; round++) {
  const alone = await list(few);
  const crowded = await list(many);
  results.push({ share: crowded.rate / alone.rate, times: crowded.p99 / alone.p99 });
}
const { share = 0, times = Infinity } = results.toSorted((a, b) => a.share - b.share)[rounds >> 1] ?? {};
console.log(
  `${many} connections reach ${share.toFixed(2)} of the rate of ${few}; p99 is ${times.toFixed(1)} times as long`,
);
const holds = share >= leastShare && times <= mostTimes && (await server.end()) === 0;
console.log(`${holds ? 'yes' : 'NO '}  every request was served, at no less than a quarter of the rate`);
process.exit(holds ? 0 : 1);
