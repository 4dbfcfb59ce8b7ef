// The round trip of ../run.js with Kubb's Axios client.
import { isAxiosError } from 'axios';
import { setConfig } from './client/.kubb/fetch.js';
import { createPlant, deletePlant, listPlants } from './client/index.js';
import type { Error as PlantError } from './client/index.js';
import './exact-ids.js';

const { BASE_URL, TOKEN, READ_TOKEN } = process.env;

const authorize = (token: string | undefined) => ({ headers: { authorization: `Bearer ${token}` } });
setConfig({ baseURL: BASE_URL!, ...authorize(TOKEN) });

// docs: hide
/** The status, and the code of the error that the body contains. */
async function statusAndCode(call: Promise<unknown>) {
  try {
    await call;
  } catch (error) {
    if (!isAxiosError<PlantError>(error)) throw error;
    return [error.response?.status, error.response?.data.error];
  }
  return [0, 0];
}
// docs: show

const own = 2n ** 53n + 1n;
const max = 2n ** 63n - 1n;
await createPlant({ id: own, name: 'own' });
await createPlant({ id: max, name: 'max' });
const list = await listPlants({ limit: 3 });
await deletePlant(own);
// docs: hide
const errors = [
  await statusAndCode(createPlant({ id: max, name: 'other' })),
  await statusAndCode(listPlants({}, {}, authorize('wrong'))),
  await statusAndCode(deletePlant(1n, authorize(READ_TOKEN))),
  await statusAndCode(deletePlant(own)),
];
console.log(JSON.stringify({ list: list.map(({ name }) => name), errors }));
// docs: show
