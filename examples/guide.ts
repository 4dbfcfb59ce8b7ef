// The TypeScript of docs/api.md, written by "npm run generate", so that the compiler checks it; do not edit.
import { ApiError, createClient } from 'plant-store-client';

const plants = createClient({
  baseUrl: process.env['PLANT_STORE_URL']!,
  token: process.env['PLANT_STORE_TOKEN']!,
});

const created = await plants.createPlant({
  id: 9007199254740993n,
  name: 'Monstera deliciosa',
  tag: 'indoor',
});
console.log(JSON.stringify(created));

const first = await plants.listPlants({ limit: 10 });
console.log(JSON.stringify(first));

await plants.deletePlant(9007199254740993n);
try {
  await plants.deletePlant(9007199254740993n);
} catch (error) {
  if (!(error instanceof ApiError) || !error.is('plantNotFound')) throw error;
  console.log(JSON.stringify({ error: error.code, message: error.message }));
}
