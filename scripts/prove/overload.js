// Checks that a server keeps the rate of its callers when there are far more requests than it can serve at a time, and beside
// a flood without a token from an IPv6 site; as a control, a flood must take from them what no limit keeps for them.
//
//   npm run prove:overload
//
// Each connection sends its next request when it has a response. What is reached alone, just before, shows what the server
// can do.
import { setTimeout } from 'node:timers/promises';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { putUnderLoad, requestText } from '../bench/load.js';

const callers = 8;
const few = 64;
const many = 500;
const rounds = 5;
/** The time of a measurement without a flood, and of one from its first moment, in ms. */
const alone = 2_000;
const attacked = 10_000;
/** The connections of a caller beside a flood, and those that flood. */
const [known, flooding] = [16, 1_000];
/**
 * The least share of its rate, and the longest time of 99 % of the requests, in times that of the few. Requests that live
 * longer cost more: garbage is collected while they are in progress.
 */
const leastShare = 0.25;
const mostTimes = (5 * many) / few;
/** The least share beside a flood. */
const leastBeside = 0.8;

/** @type {Record<string, boolean>} */
const verdicts = {};

/** @typedef {Awaited<ReturnType<typeof startServer>>} Server */

/**
 * Puts a server under load, and returns how many requests it has served per second, of those that it has answered.
 * @param {Server} server
 * @param {number} connections
 * @param {number} time - In ms.
 * @param {() => string} next - Returns the next request.
 */
async function servedBy({ port }, connections, time, next) {
  let served = 0;
  /** @param {number} status */
  const expect = (status) => {
    if (status === 200) served++;
    return true;
  };
  const { requests, rate, p99 } = await putUnderLoad({ port, connections, time, next, expect });
  return { rate: (rate * served) / requests, p99, all: served === requests };
}

/** Returns the function that returns lists of some tokens in turn. @param {string[]} tokens */
function lists(tokens) {
  let sent = 0;
  return () => requestText({ method: 'GET', path: '/plants', token: tokens[sent++ % tokens.length] });
}

/** Measures many connections of several callers beside few. */
async function crowd() {
  const server = await startServer({ measured: true });
  const tokens = await Promise.all(Array.from({ length: callers }, (_, i) => server.createToken(`${i}`)));
  /** @param {number} connections */
  const list = (connections) => servedBy(server, connections, alone, lists(tokens));
  await list(few);
  const results = [];
  for (let round = 0; round < rounds; round++) {
    const calm = await list(few);
    const crowded = await list(many);
    results.push({ share: crowded.all ? crowded.rate / calm.rate : 0, times: crowded.p99 / calm.p99 });
  }
  const { share = 0, times = Infinity } = results.sort((a, b) => a.share - b.share)[rounds >> 1] ?? {};
  console.log(
    `${many} connections reach ${share.toFixed(2)} of the rate of ${few}; p99 is ${times.toFixed(1)} times as long`,
  );
  verdicts['every request was served, at no less than a quarter of the rate'] =
    share >= leastShare && times <= mostTimes && (await server.end()) === 0;
}

/**
 * Measures the share of its rate that a known caller has from the first moment of a flood on: of requests without a token,
 * from many addresses of a /48.
 * @param {string} limit - For each address.
 */
async function flood(limit) {
  const env = { RATE_LIMIT_PER_ADDRESS: limit, TRUST_PROXY: '127.0.0.1' };
  const server = await startServer({ measured: true, env });
  const token = await server.createToken('known');
  /** @param {string} address @param {string} [token] */
  const request = (address, token) => {
    const text = requestText({ method: 'GET', path: '/plants', token });
    return text.replace('\r\n', `\r\nX-Forwarded-For: ${address}\r\n`);
  };
  let sent = 0;
  // The known caller is behind many addresses, which have no limit in common.
  const next = () => request(`10.${(++sent >> 16) & 255}.${(sent >> 8) & 255}.${sent & 255}`, token);
  const shares = [];
  for (let round = 0; round < rounds; round++) {
    const { rate } = await servedBy(server, known, alone, next);
    let isOver = false;
    const flooded = putUnderLoad({
      ...{ port: server.port, connections: flooding, time: Infinity },
      next: () =>
        isOver ? undefined : request(`2001:db8:1:${Math.floor(Math.random() * 65_536).toString(16)}::1`),
      expect: () => true,
    });
    shares.push((await servedBy(server, known, attacked, next)).rate / rate);
    isOver = true;
    await flooded;
    await setTimeout(alone);
  }
  const share = shares.sort((a, b) => a - b)[rounds >> 1] ?? 0;
  console.log(
    `beside a flood on ${flooding} connections, a known caller has ${share.toFixed(2)} of its rate`,
  );
  return (await server.end()) === 0 ? share : NaN;
}

await crowd();
verdicts[`beside a flood, it has at least ${leastBeside}`] = (await flood('600')) >= leastBeside;
verdicts['control: without a limit for each address, it has less'] = (await flood('0')) < leastBeside;
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
process.exit(Object.values(verdicts).every(Boolean) ? 0 : 1);
