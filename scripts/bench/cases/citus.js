// Measures the service on Citus, a coordinator and two workers, against one PostgreSQL, and the CPU time of each part.
//
//   npm run build && node scripts/bench/cases/citus.js
import { startCitus } from '../../../packages/server/test/support/citus-cluster.js';
import { systemPostgres } from '../../../packages/server/test/support/postgres-cluster.js';
import { cpuTime } from '../../lib/processes.js';
import { median } from '../../lib/statistics.js';
import { putUnderLoad, requestText } from '../load.js';
import { alternate } from '../measure.js';
import { startMeasured } from '../measured-server.js';
import { fillStore } from '../store.js';
import { createRequest } from '../workloads.js';

const rounds = 7;
const roundTime = 1_500;
const subjects = Array.from({ length: 200 }, (_, i) => `subject ${i}`);

const cluster = await startCitus();
if (cluster === undefined) {
  console.error('no Citus here');
  process.exit(2);
}
const single = await (await systemPostgres()).createServer('single');

/**
 * The CPU that the processes of servers have used, those that have ended included, in µs.
 * @param {typeof single[]} servers
 */
const cpuOf = (servers) =>
  servers.reduce((sum, server) => {
    const [postmaster = NaN, ...others] = server.processes();
    return others.reduce((all, pid) => all + cpuTime(pid), sum + cpuTime(postmaster, { withEnded: true }));
  }, 0);

/** @param {typeof single} address @param {typeof single[]} workers */
async function startSide(address, workers) {
  const seed = subjects.map((subject) => ({ subject, plants: 100 }));
  const tokens = await fillStore(address.url(), seed);
  const service = await startMeasured({ env: { DATABASE_URL: address.url() } });
  return { service, tokens, address, workers };
}
const sides = [await startSide(single, []), await startSide(cluster.coordinator, cluster.workers)];

let id = 0;
/** The token of the first subject, or of several in turn. @param {Map<string, string>} tokens @param {number} count */
const tokenOf = (tokens, count) => tokens.get(/** @type {string} */ (subjects[++id % count]));
/** @type {Record<string, (tokens: Map<string, string>) => string>} */
const workloads = {
  'list of 100': (tokens) =>
    requestText({ method: 'GET', path: '/plants?limit=100', token: tokenOf(tokens, subjects.length) }),
  'create, one subject': (tokens) => createRequest(tokenOf(tokens, 1), id),
  'create, 200 subjects': (tokens) => createRequest(tokenOf(tokens, subjects.length), id),
};

for (const connections of [256, 16]) {
  for (const [name, next] of Object.entries(workloads)) {
    const [plain = [], citus = []] = await alternate(rounds, sides, (side) =>
      measure(side, next, connections),
    );
    const ratios = citus.map(({ rate }, i) => rate / Number(plain[i]?.rate));
    const of = (/** @type {typeof plain} */ all, /** @type {keyof typeof plain[0]} */ key) =>
      Math.round(median(all.map((one) => one[key])));
    console.log(
      `${name}, ${connections} connections: ${of(plain, 'rate')}/s, on Citus ${of(citus, 'rate')}/s, ` +
        `ratio ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}); ` +
        `CPU in µs: service ${of(plain, 'service')} + PostgreSQL ${of(plain, 'address')}; ` +
        `service ${of(citus, 'service')} + coordinator ${of(citus, 'address')} + workers ${of(citus, 'workers')}`,
    );
  }
}
process.exit(0);

/**
 * Measures the rate, and the CPU per request of each part, in µs.
 * @param {typeof sides[0]} side
 * @param {(tokens: Map<string, string>) => string} next
 * @param {number} connections
 */
async function measure({ service, tokens, address, workers }, next, connections) {
  await service.reset();
  const before = { address: cpuOf([address]), workers: cpuOf(workers) };
  const { rate, requests } = await putUnderLoad({
    port: service.port,
    connections,
    time: roundTime,
    next: () => next(tokens),
  });
  const { cpu } = await service.usage();
  return {
    rate,
    service: (cpu * 1000) / requests,
    address: (cpuOf([address]) - before.address) / requests,
    workers: (cpuOf(workers) - before.workers) / requests,
  };
}
