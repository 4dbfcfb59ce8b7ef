// Measures the service on Citus, a coordinator and two workers, against one PostgreSQL, and the CPU time of each part.
//
//   npm run build && node scripts/bench/cases/citus.js
import { putUnderLoad, requestText } from '../load.js';
import { startMeasured } from '../measured-server.js';
import { fillStore } from '../store.js';
import { createRequest } from '../workloads.js';
import { startCitus } from '../../../test/support/citus-cluster.js';
import { systemPostgres } from '../../../test/support/postgres-cluster.js';
import { cpuTime } from '../../lib/cpu-time.js';
import { median } from '../../lib/statistics.js';

const rounds = 7;
const roundTime = 1_500;
const subjects = Array.from({ length: 200 }, (_, i) => `subject ${i}`);

const cluster = await startCitus();
if (cluster === undefined) {
  console.error('no Citus here');
  process.exit(2);
}
const single = await (await systemPostgres()).createServer('single');

/** The CPU that the processes of servers have used, those that have ended included, in µs. @param {typeof single[]} servers */
const cpuOf = (...servers) =>
  servers.reduce((sum, server) => {
    const [postmaster = NaN, ...others] = server.processes();
    return others.reduce((all, pid) => all + cpuTime(pid), sum + cpuTime(postmaster, { withEnded: true }));
  }, 0);

/** @param {typeof single} address @param {typeof single[]} workers */
async function prepare(address, workers) {
  const tokens = await fillStore(
    address.url(),
    subjects.map((subject) => ({ subject, plants: 100 })),
  );
  const service = await startMeasured({ env: { DATABASE_URL: address.url() } });
  return { service, tokens, address, workers, results: new Map() };
}
const targets = {
  PostgreSQL: await prepare(single, []),
  Citus: await prepare(cluster.coordinator, cluster.workers),
};

let id = 0;
/** The token of the first subject, or of several in turn. @param {Map<string, string>} tokens @param {number} count */
const tokenOf = (tokens, count) => tokens.get(/** @type {string} */ (subjects[++id % count]));
/** @type {Record<string, { connections: number, next: (tokens: Map<string, string>) => string }>} */
const workloads = {};
for (const connections of [256, 16]) {
  workloads[`list of 100, ${connections} connections`] = {
    connections,
    next: (tokens) =>
      requestText({ method: 'GET', path: '/plants?limit=100', token: tokenOf(tokens, subjects.length) }),
  };
  workloads[`create, one subject, ${connections} connections`] = {
    connections,
    next: (tokens) => createRequest(tokenOf(tokens, 1), id),
  };
  workloads[`create, ${subjects.length} subjects, ${connections} connections`] = {
    connections,
    next: (tokens) => createRequest(tokenOf(tokens, subjects.length), id),
  };
}

for (let round = 0; round <= rounds; round++) {
  for (const [name, { connections, next }] of Object.entries(workloads)) {
    for (const { service, tokens, address, workers, results } of Object.values(targets)) {
      await service.reset();
      const before = [cpuOf(address), cpuOf(...workers)];
      const { rate, requests } = await putUnderLoad({
        port: service.port,
        connections,
        time: roundTime,
        next: () => next(tokens),
      });
      const after = [cpuOf(address), cpuOf(...workers)];
      const { cpu } = await service.usage();
      const [addressCpu = NaN, workersCpu = NaN] = after.map(
        (time, i) => (time - (before[i] ?? NaN)) / requests,
      );
      // The first round warms up.
      if (round === 0) results.set(name, []);
      else
        results
          .get(name)
          .push({ rate, service: (cpu * 1000) / requests, address: addressCpu, workers: workersCpu });
    }
  }
}

for (const name of Object.keys(workloads)) {
  const [plain, citus] = [targets.PostgreSQL, targets.Citus].map(({ results }) => results.get(name));
  const ratios = citus.map(
    (/** @type {{ rate: number }} */ { rate }, /** @type {number} */ i) => rate / plain[i].rate,
  );
  const of = (/** @type {Record<string, number>[]} */ all, /** @type {string} */ key) =>
    Math.round(median(all.map((one) => one[key] ?? NaN)));
  console.log(
    `${name}: ${of(plain, 'rate')}/s, on Citus ${of(citus, 'rate')}/s, ratio ${median(ratios).toFixed(2)} ` +
      `(${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}); CPU in µs: service ${of(plain, 'service')} + ` +
      `PostgreSQL ${of(plain, 'address')}; service ${of(citus, 'service')} + coordinator ${of(citus, 'address')} + ` +
      `workers ${of(citus, 'workers')}`,
  );
}
process.exit(0);
