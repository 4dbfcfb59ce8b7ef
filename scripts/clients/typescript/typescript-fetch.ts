import { Configuration, ModelErrorFromJSON, PlantsApi, type ResponseError } from './client/index.ts';
import { BASE_URL, run, TOKEN } from './program.ts';

const plants = new PlantsApi(new Configuration({ basePath: BASE_URL, accessToken: TOKEN }));

await run({
  create: async (newPlant) => ({ data: await plants.createPlant({ newPlant }) }),
  list: async (ifNoneMatch) => ({ data: await plants.listPlants({ ifNoneMatch }) }),
  remove: async (id) => ({ data: await plants.deletePlant({ id }) }),
  thrown: async ({ response }: ResponseError) => {
    const body = await response.text();
    return { status: response.status, data: body === '' ? body : ModelErrorFromJSON(JSON.parse(body)) };
  },
});
