import { Api } from './client/Api.ts';
import { authorization, BASE_URL, run } from './program.ts';

const { plants } = new Api({ baseUrl: BASE_URL, baseApiParams: { headers: { authorization } } });

await run({
  create: (body) => plants.createPlant(body),
  list: (etag) => plants.listPlants({}, { headers: { 'If-None-Match': etag } }),
  remove: (id) => plants.deletePlant(id),
  // It throws the response. It does not read an error of deletePlant, whose success has no body.
  thrown: async (response: Response & { error: unknown }) =>
    response.error === null ? { status: response.status, error: await response.json() } : response,
});
