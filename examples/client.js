// The client at work, on Node 20 and later, in a folder where plant-store-client is installed (docs/api.md, "TypeScript").
// With a server from "npm start" and the token that it shows:
//   PLANT_STORE_TOKEN=pst_… node client.js
import { ApiError, ConnectionError, createClient } from 'plant-store-client';

const plants = createClient({
  baseUrl: process.env['PLANT_STORE_URL'] ?? 'http://127.0.0.1:3000',
  // Asked before every request, so it may as well fetch a fresh one.
  token: () => process.env['PLANT_STORE_TOKEN'] ?? '',
});

// One more than a double can tell from its neighbor: the id stays exact, because it is a bigint.
const id = 2n ** 53n + 1n;

try {
  console.log('created', await plants.createPlant({ id, name: 'Monstera deliciosa', tag: 'indoor' }));
  console.log('the first ten', await plants.listPlants({ limit: 10 }));
  await plants.deletePlant(id);
  console.log('deleted', id);
  await plants.deletePlant(id);
} catch (error) {
  if (error instanceof ApiError && error.is('plantNotFound')) {
    console.log('deleted already:', error.status, error.code, error.message);
  } else if (error instanceof ConnectionError) {
    console.error(`No answer after ${error.attempts} attempts.`, error.cause);
    process.exitCode = 1;
  } else {
    throw error;
  }
}
