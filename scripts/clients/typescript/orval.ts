import { createPlant, deletePlant, listPlants } from './client/client.ts';
import { authorization, BASE_URL, run } from './program.ts';

// Where there is no origin, as in Node.js, it needs a "mutator" for the address; this is the shortest.
const send = globalThis.fetch;
globalThis.fetch = (path, options) =>
  send(`${BASE_URL}${path as string}`, { ...options, headers: { ...options?.headers, authorization } });

await run({
  create: (body) => createPlant(body),
  list: (etag) => listPlants({}, { headers: { 'If-None-Match': etag } }),
  remove: (id) => deletePlant(id),
});
