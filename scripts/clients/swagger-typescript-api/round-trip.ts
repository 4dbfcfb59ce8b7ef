// The round trip of ../run.js with swagger-typescript-api's client.
import { Api } from './client/plants.js';
import type { Error as PlantError } from './client/plants.js';
import './exact-ids.js';

const { BASE_URL, TOKEN, READ_TOKEN } = process.env;

const connect = (token: string | undefined) =>
  new Api({
    baseUrl: BASE_URL!,
    // Without a format, the client does not parse the errors of operations that return no content.
    baseApiParams: { format: 'json', headers: { authorization: `Bearer ${token}` } },
  }).plants;

// docs: hide
/** The status, and the code of the error that the body contains. */
async function statusAndCode(call: Promise<unknown>) {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof Response)) throw error;
    return [error.status, (error as Response & { error: PlantError }).error.error];
  }
  return [0, 0];
}
// docs: show

const plants = connect(TOKEN);
const own = 2n ** 53n + 1n;
const max = 2n ** 63n - 1n;
await plants.createPlant({ id: own, name: 'own' });
await plants.createPlant({ id: max, name: 'max' });
const list = await plants.listPlants({ limit: 3 });
await plants.deletePlant(own);
// docs: hide
const errors = [
  await statusAndCode(plants.createPlant({ id: max, name: 'other' })),
  await statusAndCode(connect('wrong').listPlants()),
  await statusAndCode(connect(READ_TOKEN).deletePlant(1n)),
  await statusAndCode(plants.deletePlant(own)),
];
console.log(JSON.stringify({ list: list.data.map(({ name }) => name), errors }));
// docs: show
