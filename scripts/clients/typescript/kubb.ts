import { createPlant } from './client/clients/createPlant.ts';
import { deletePlant } from './client/clients/deletePlant.ts';
import { listPlants } from './client/clients/listPlants.ts';
import { authorization, BASE_URL, run } from './program.ts';

const config = { baseURL: BASE_URL, headers: { authorization } };
// Without it, a body is sent as text/plain.
const json = { ...config, headers: { authorization, 'content-type': 'application/json' } };

await run({
  create: (body) => createPlant(body, json),
  list: (etag) => listPlants({}, { 'If-None-Match': etag }, config),
  remove: (id) => deletePlant(id, config),
});
