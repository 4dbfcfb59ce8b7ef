// An example of plant-store-client, which must be installed; in a checkout, run "npm run build:client". Needs Node.js 20
// or later.
// Start a server with "npm start", and run this file with the token that the server prints:
//   PLANT_STORE_TOKEN=pst_… node client.js
import { ApiError, ConnectionError, createClient } from 'plant-store-client';

const plants = createClient({
  baseUrl: process.env['PLANT_STORE_URL'] ?? 'http://127.0.0.1:3000',
  // Called before every request, so it can also renew the token.
  token: () => process.env['PLANT_STORE_TOKEN'] ?? '',
});

// A double cannot represent this id; a bigint keeps it exact.
const id = 2n ** 53n + 1n;

try {
  console.log('created', await plants.createPlant({ id, name: 'Monstera deliciosa', tag: 'indoor' }));
  console.log('the first ten', await plants.listPlants({ limit: 10 }));
  await plants.deletePlant(id);
  console.log('deleted', id);
  await plants.deletePlant(id);
} catch (error) {
  if (error instanceof ApiError && error.is('plantNotFound')) {
    console.log('already deleted:', error.status, error.code, error.message);
  } else if (error instanceof ApiError) {
    console.error('refused:', error.status, error.code, error.message);
    process.exitCode = 1;
  } else if (error instanceof ConnectionError) {
    console.error(`No response after ${error.attempts} attempts.`, error.cause);
    process.exitCode = 1;
  } else {
    throw error;
  }
}
