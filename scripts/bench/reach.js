// The marks that the service is to reach, as ratios of what one run has measured.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { putUnderLoad, requestText } from './load.js';
import { startMeasured } from './measured-server.js';
import { median } from '../lib/statistics.js';
import { fillStore } from './store.js';

/** @typedef {{ what: string, ratio: number, mark: number }} Reach */

/**
 * @param {readonly import('./run.js').Result[]} results
 * @param {{ time: number, rounds: number }} options - Time in ms.
 * @returns {Promise<Reach[]>}
 */
export async function measureReach(results, options) {
  const ours = results.find(({ kind }) => kind === 'ours');
  if (ours === undefined) return [];
  const fastify = results.find(({ name }) => name === 'Fastify');
  /** @type {Reach[]} */
  const reach = [];
  /** @param {string} what @param {string} workload @param {import('./run.js').Result | undefined} other @param {number} mark */
  const compare = (what, workload, other, mark) => {
    const ratio = rateOf(ours, workload, 256) / rateOf(other, workload, 256);
    if (Number.isFinite(ratio)) reach.push({ what, ratio, mark });
  };
  compare('create, of bare Fastify', 'create', fastify, 0.5);
  compare('list 100, of bare Fastify', 'list-100', fastify, 0.3);
  compare('401, of bare Fastify', 'refused', fastify, 0.9);
  for (const peer of results.filter(({ kind }) => kind === 'peer')) {
    for (const { workload, connections } of peer.measurements) {
      const ratio = rateOf(ours, workload, connections) / rateOf(peer, workload, connections);
      const what = `${workload} at ${connections} connections, of ${peer.name}`;
      if (Number.isFinite(ratio)) reach.push({ what, ratio, mark: workload.startsWith('create') ? 2 : 1 });
    }
  }
  if (ours.measurements.some(({ workload }) => workload === 'list-100000')) {
    reach.push(await measureLongList(options));
  }
  return reach;
}

/** @param {import('./run.js').Result | undefined} result @param {string} workload @param {number} connections */
export function rateOf(result, workload, connections) {
  const measurement = result?.measurements.find(
    (found) => found.workload === workload && found.connections === connections,
  );
  if (measurement === undefined || measurement.samples.length === 0) return NaN;
  return median(measurement.samples.map(({ rate }) => rate));
}

/**
 * The long list through HTTP, in turns with the same store read in a process of its own.
 * @param {{ time: number, rounds: number }} options
 * @returns {Promise<Reach>}
 */
async function measureLongList({ time, rounds }) {
  const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
  try {
    const url = `file:${join(folder, 'plants.db')}`;
    const tokens = await fillStore(url, [{ subject: 'long', plants: 100_000 }]);
    const script = fileURLToPath(new URL('store-rate.js', import.meta.url));
    const request = requestText({ method: 'GET', path: '/plants', token: tokens.get('long') });
    const ratios = [];
    const server = await startMeasured({ env: { DATABASE_URL: url } });
    for (let round = 0; round <= rounds; round++) {
      const { stdout } = await promisify(execFile)(process.execPath, [script, url, 'long', String(time)]);
      const { rate } = await putUnderLoad({ port: server.port, connections: 4, time, next: () => request });
      if (round > 0) ratios.push(rate / Number(stdout));
    }
    await server.end();
    return { what: 'list 100,000, of the store alone', ratio: median(ratios), mark: 0.6 };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
