// Checks that a server keeps the rate of its callers when there are far more requests than it can serve at a time, from
// several callers; beside clients that do not read long lists; and in floods without a token, from one address and from
// many of an IPv6 site.
//
//   npm run prove:overload
//
// Each connection sends its next request when it has a response. What is reached alone, just before, shows what the server
// can do.
import { connect } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { putUnderLoad, requestText } from '../bench/load.js';

const callers = 8;
const few = 64;
const many = 500;
const rounds = 5;
/** The time of a measurement without an attack, and of one from the first moment of an attack, in ms. */
const alone = 2_000;
const attacked = 10_000;
/** The connections of a caller beside an attack, those that stall, of so many callers, and those that flood. */
const known = 16;
const stalling = 600;
const slowCallers = 2;
const flooding = 1_000;
/** The list of each stalled client, which no buffers of the system hold: the number of plants and their length. */
const [count, length] = [300, 100_000];
/**
 * The least share of its rate, and the longest time of 99 % of the requests, in times that of the few. Requests that live
 * longer cost more: garbage is collected while they are in progress.
 */
const leastShare = 0.25;
const mostTimes = (5 * many) / few;
/** The least share beside an attack. */
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
 * Measures the share of its rate that a known caller has from the first moment of an attack on.
 * @param {string} name
 * @param {Server} server
 * @param {() => string} next - Returns the next request of the known caller.
 * @param {() => () => unknown} attack - Begins an attack, and returns the function that ends it.
 */
async function beside(name, server, next, attack) {
  /** @param {number} time */
  const list = (time) => servedBy(server, known, time, next);
  await list(alone);
  const shares = [];
  for (let round = 0; round < rounds; round++) {
    const { rate } = await list(alone);
    const end = attack();
    shares.push((await list(attacked)).rate / rate);
    await end();
    await setTimeout(alone);
  }
  const share = shares.sort((a, b) => a - b)[rounds >> 1] ?? 0;
  console.log(`beside ${name}, a known caller has ${share.toFixed(2)} of its rate`);
  verdicts[`beside ${name}, it has at least ${leastBeside}, and the server ends in order`] =
    share >= leastBeside && (await server.end()) === 0;
}

/** Clients that send a request for a long list, and read nothing. */
async function stall() {
  const server = await startServer({ measured: true });
  const { port } = server;
  const tokens = await Promise.all(Array.from({ length: slowCallers }, (_, i) => server.createToken(`${i}`)));
  for (const token of tokens)
    for (let id = 0; id < count; id++) {
      const response = await fetch(`${server.origin}/plants`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ id, name: 'x'.repeat(length) }),
      });
      if (response.status !== 200) throw new Error(`status ${response.status}`);
    }
  const next = lists([await server.createToken('known')]);
  await beside(`${stalling} stalled readers`, server, next, () => {
    const sockets = Array.from({ length: stalling }, (_, i) => {
      const socket = connect(port, '127.0.0.1').pause();
      socket.on('error', () => undefined);
      socket.write(requestText({ method: 'GET', path: '/plants', token: tokens[i % slowCallers] }));
      return socket;
    });
    return () => sockets.forEach((socket) => socket.destroy());
  });
}

/**
 * A flood of requests without a token, on many connections, from the addresses that X-Forwarded-For names.
 * @param {string} name
 * @param {(i: number) => string} addressOf
 */
async function flood(name, addressOf) {
  const env = { RATE_LIMIT_PER_ADDRESS: '600', TRUST_PROXY: '127.0.0.1' };
  const server = await startServer({ measured: true, env });
  const { port } = server;
  const token = await server.createToken('known');
  /** @param {string} address @param {string} [token] */
  const request = (address, token) => {
    const text = requestText({ method: 'GET', path: '/plants', token });
    return text.replace('\r\n', `\r\nX-Forwarded-For: ${address}\r\n`);
  };
  let sent = 0;
  await beside(
    `a flood on ${flooding} connections from ${name}`,
    server,
    // The known caller is behind many addresses, which have no limit in common.
    () => request(`10.${(++sent >> 16) & 255}.${(sent >> 8) & 255}.${sent & 255}`, token),
    () => {
      let isOver = false;
      const flooded = putUnderLoad({
        ...{ port, connections: flooding, time: Infinity },
        next: () => (isOver ? undefined : request(addressOf(Math.floor(Math.random() * 65_536)))),
        expect: () => true,
      });
      return () => {
        isOver = true;
        return flooded;
      };
    },
  );
}

await crowd();
await stall();
await flood('one address', () => '192.0.2.1');
await flood('a /48', (i) => `2001:db8:1:${i.toString(16)}::1`);
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
process.exit(Object.values(verdicts).every(Boolean) ? 0 : 1);
