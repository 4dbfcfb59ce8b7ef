import type { AxiosError } from 'axios';
import { Configuration, PlantsApi } from './client/index.ts';
import { BASE_URL, run, TOKEN } from './program.ts';

const plants = new PlantsApi(new Configuration({ basePath: BASE_URL, accessToken: TOKEN }));

await run({
  create: (body) => plants.createPlant(body),
  list: (etag) => plants.listPlants(undefined, etag),
  remove: (id) => plants.deletePlant(id),
  thrown: ({ response }: AxiosError) => response!,
});
