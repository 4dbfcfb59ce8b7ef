import { client } from './client/client.gen.ts';
import { createPlant, deletePlant, listPlants } from './client/sdk.gen.ts';
import { BASE_URL, outcome, run, TOKEN } from './program.ts';

// Its own serializer writes a bigint as a string.
client.setConfig({ baseUrl: BASE_URL, auth: TOKEN, bodySerializer: JSON.stringify });

await run({
  create: async (body) => outcome(await createPlant({ body })),
  list: async (etag) => outcome(await listPlants({ headers: { 'If-None-Match': etag } })),
  remove: async (id) => outcome(await deletePlant({ path: { id } })),
});
