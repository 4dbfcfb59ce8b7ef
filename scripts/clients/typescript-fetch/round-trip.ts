// The round trip of ../run.js by openapi-generator's typescript-fetch client.
import { Configuration, ModelErrorFromJSON, PlantsApi, ResponseError } from './client/index.js';
import { exactFetch } from './exact-fetch.js';

const { BASE_URL, TOKEN, READ_TOKEN } = process.env;

const connect = (accessToken: string) =>
  new PlantsApi(new Configuration({ basePath: BASE_URL!, accessToken, fetchApi: exactFetch }));

// docs: hide
/** The status of the error, and the code of the Error that its body is read as. */
async function outcome(call: Promise<unknown>) {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof ResponseError)) throw error;
    return [error.response.status, ModelErrorFromJSON(await error.response.json()).error];
  }
  return [0, 0];
}
// docs: show

const plants = connect(TOKEN!);
const own = 2n ** 53n + 1n;
const max = 2n ** 63n - 1n;
await plants.createPlant({ newPlant: { id: own, name: 'own' } });
await plants.createPlant({ newPlant: { id: max, name: 'max' } });
const list = await plants.listPlants({ limit: 3 });
await plants.deletePlant({ id: own });
// docs: hide
const errors = [
  await outcome(plants.createPlant({ newPlant: { id: max, name: 'other' } })),
  await outcome(connect('wrong').listPlants()),
  await outcome(connect(READ_TOKEN!).deletePlant({ id: 1n })),
  await outcome(plants.deletePlant({ id: own })),
];
console.log(JSON.stringify({ list: list.map(({ name }) => name), errors }));
// docs: show
