// Opens the Plant Store's storage as its processes do, for scripts.
import { plants, PlantRepository } from '../../dist/plants/repository.js';
import { service } from '../../dist/service.js';
import { openStorage } from '../../dist/storage/open.js';
import { openSqlite } from '../../dist/storage/sqlite/storage.js';

/** @template {import('../../dist/storage/interface.js').Storage} S @param {S} storage */
const withPlants = (storage) =>
  Object.assign(storage, { plants: new PlantRepository(storage.collection(plants)) });

/** @param {string} url */
export async function openStore(url) {
  return withPlants(await openStorage(service, url));
}

/** @param {string} file */
export async function openFile(file) {
  return withPlants(await openSqlite({ store: service, file }));
}
