// Measures durable creates with one process and with two on one PostgreSQL, and the CPU time of each part.
//
//   npm run build && node scripts/bench/cases/scale.js
import { putUnderLoad } from '../load.js';
import { alternate } from '../measure.js';
import { startMeasured } from '../measured-server.js';
import { cpuTime } from '../../lib/processes.js';
import { median } from '../../lib/statistics.js';
import { createRequest } from '../workloads.js';
import { systemPostgres } from '../../../packages/server/test/support/postgres-cluster.js';
import { plantStore } from '../../../packages/server/test/support/server-process.js';

const connections = 256;
const rounds = 7;
const roundTime = 2_000;

const postgres = await (await systemPostgres()).createServer('data');
const DATABASE_URL = postgres.url();
await plantStore(DATABASE_URL, 'migrate');
const token = await plantStore(DATABASE_URL, 'token', 'create', 'bench');
/** @type {import('../measured-server.js').MeasuredServer[]} */
const services = [];
for (let i = 0; i < 2; i++) services.push(await startMeasured({ env: { DATABASE_URL } }));

let id = 0;
const next = () => createRequest(token, ++id);

/** Returns the CPU time of PostgreSQL's running processes, in µs. */
function postgresTime() {
  return postgres.processes().reduce((sum, pid) => sum + cpuTime(pid), 0);
}

/** Measures creates through the first processes. @param {number} processes */
async function measure(processes) {
  const used = services.slice(0, processes);
  for (const service of used) await service.reset();
  const before = postgresTime();
  const loads = await Promise.all(
    used.map((service) =>
      putUnderLoad({
        port: service.port,
        connections: connections / processes,
        time: roundTime,
        next,
      }),
    ),
  );
  const after = postgresTime();
  const usages = await Promise.all(used.map((service) => service.usage()));
  const creates = loads.reduce((sum, { requests }) => sum + requests, 0);
  return {
    rate: loads.reduce((sum, { rate }) => sum + rate, 0),
    service: (usages.reduce((sum, { cpu }) => sum + cpu, 0) * 1000) / creates,
    postgres: (after - before) / creates,
    // All loads run in this process, and each reports the CPU time of the whole process.
    generator: (Math.max(...loads.map(({ cpu, seconds }) => cpu * seconds)) * 1e6) / creates,
  };
}

const results = await alternate(rounds, [1, 2], measure);
for (const [i, all] of results.entries()) {
  const of = (/** @type {keyof (typeof all)[0]} */ key) => Math.round(median(all.map((one) => one[key])));
  console.log(
    `${i + 1} process${i === 0 ? '  ' : 'es'}: ${of('rate')} creates/s; CPU per create, in µs: ` +
      `service ${of('service')}, PostgreSQL ${of('postgres')}, load generator ${of('generator')}`,
  );
}
const [one = NaN, two = NaN] = results.map((all) => median(all.map(({ rate }) => rate)));
console.log(`ratio: ${(two / one).toFixed(2)}`);
await Promise.all(services.map(({ end }) => end()));
process.exit(0);
