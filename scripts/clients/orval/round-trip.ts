// The round trip of ../run.js with orval's client.
import { createPlant, deletePlant, listPlants } from './client/plants.js';
import './exact-ids.js';

const authorize = (token: string | undefined) => ({ headers: { authorization: `Bearer ${token}` } });

// docs: hide
/** The status, and the code of the error that the body contains. */
const statusAndCode = ({ status, data }: { status: number; data: unknown }) => [
  status,
  (data as { error: number }).error,
];
// docs: show

const own = 2n ** 53n + 1n;
const max = 2n ** 63n - 1n;
await createPlant({ id: own, name: 'own' });
await createPlant({ id: max, name: 'max' });
const list = await listPlants({ limit: 3 });
if (list.status !== 200) throw new Error(`listPlants: ${list.status}`);
await deletePlant(own);
// docs: hide
const taken = await createPlant({ id: max, name: 'other' });
const errors = [
  // The status selects the type of the body.
  taken.status === 400 ? [taken.status, taken.data.error] : statusAndCode(taken),
  statusAndCode(await listPlants({}, authorize('wrong'))),
  statusAndCode(await deletePlant(1n, authorize(process.env['READ_TOKEN']))),
  statusAndCode(await deletePlant(own)),
];
console.log(JSON.stringify({ list: list.data.map(({ name }) => name), errors }));
// docs: show
