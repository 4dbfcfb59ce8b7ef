import createClient from 'openapi-fetch';
import type { paths } from './client/types.ts';
import { authorization, BASE_URL, outcome, run } from './program.ts';

const plants = createClient<paths>({ baseUrl: BASE_URL, headers: { authorization } });

await run({
  create: async (body) => outcome(await plants.POST('/plants', { body })),
  list: async (etag) =>
    outcome(await plants.GET('/plants', { params: { header: { 'If-None-Match': etag } } })),
  remove: async (id) => outcome(await plants.DELETE('/plants/{id}', { params: { path: { id } } })),
});
