// The round trip of ../run.js by @hey-api/openapi-ts's client.
import { client } from './client/client.gen.js';
import { createPlant, deletePlant, listPlants } from './client/sdk.gen.js';
import type { Error as PlantError } from './client/types.gen.js';
import { exactBody } from './exact-body.js';

const { BASE_URL, TOKEN, READ_TOKEN } = process.env;

client.setConfig({
  baseUrl: BASE_URL!,
  auth: TOKEN!,
  // Its own serializer writes a bigint as a string.
  bodySerializer: exactBody,
});

/** The status and the code of a typed error. */
const outcome = ({ response, error }: { response?: Response; error?: PlantError | undefined }) => [
  response?.status,
  error?.error,
];

const own = 2n ** 53n + 1n;
const max = 2n ** 63n - 1n;
await createPlant({ body: { id: own, name: 'own' }, throwOnError: true });
await createPlant({ body: { id: max, name: 'max' }, throwOnError: true });
const { data } = await listPlants({ query: { limit: 3 }, throwOnError: true });
await deletePlant({ path: { id: own }, throwOnError: true });
const errors = [
  outcome(await createPlant({ body: { id: max, name: 'other' } })),
  outcome(await listPlants({ auth: 'wrong' })),
  outcome(await deletePlant({ path: { id: 1n }, auth: READ_TOKEN! })),
  outcome(await deletePlant({ path: { id: own } })),
];
console.log(JSON.stringify({ list: data.map(({ name }) => name), errors }));
