// Measures creates and deletes over HTTP on a store of 10 million plants and on one of 10 thousand, alternately.
//
//   npm run build && node scripts/bench/cases/rows.js
//
// Needs about 1 GB of disk and some minutes.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { putUnderLoad, requestText } from '../load.js';
import { alternate } from '../measure.js';
import { startMeasured } from '../measured-server.js';
import { median } from '../../lib/statistics.js';
import { fillStore } from '../store.js';
import { createRequest } from '../workloads.js';

const connections = 256;
const rounds = 7;
const roundTime = 2_000;
const subjects = 1_000;
const target = 0.7;

/** @typedef {'create' | 'delete'} Operation */

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
try {
  const few = await startSide(10_000);
  const many = await startSide(10_000_000);
  const [ofFew = [], ofMany = []] = await alternate(rounds, [few, many], async ({ rateOf }) => ({
    create: await rateOf('create'),
    delete: await rateOf('delete'),
  }));
  await Promise.all([few, many].map(({ end }) => end()));
  for (const operation of /** @type {const} */ (['create', 'delete'])) {
    const ratio = median(ofMany.map((many, round) => many[operation] / Number(ofFew[round]?.[operation])));
    console.log(`${operation}: ${ratio.toFixed(2)}, ${ratio >= target ? 'reached' : 'missed'} ${target}`);
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** @param {number} rows */
async function startSide(rows) {
  const DATABASE_URL = `file:${join(folder, `${rows}.db`)}`;
  console.log(`filling a store with ${rows} plants`);
  const seed = Array.from({ length: subjects }, (_, i) => ({
    subject: `subject ${i}`,
    plants: rows / subjects,
  }));
  const tokens = [...(await fillStore(DATABASE_URL, seed)).values()];
  const { port, end } = await startMeasured({ env: { DATABASE_URL } });
  /** Plants created by the measurement, at random positions in the store. @type {{ token: string, id: number }[]} */
  const created = [];
  let deleted = 0;
  const nextOf = {
    create: () => {
      const token = String(tokens[Math.floor(Math.random() * tokens.length)]);
      const id = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
      created.push({ token, id });
      return createRequest(token, id);
    },
    delete: () => {
      const plant = created[deleted++];
      return plant && requestText({ method: 'DELETE', path: `/plants/${plant.id}`, token: plant.token });
    },
  };
  return {
    /** @param {Operation} operation */
    rateOf: async (operation) =>
      (await putUnderLoad({ port, connections, time: roundTime, next: nextOf[operation] })).rate,
    end,
  };
}
