// Opens the Plant Store's storage as its processes do, for scripts.
import { plants, PlantRepository } from '../../dist/plants/repository.js';
import { service as plantStore } from '../../dist/service.js';
import { openStorage } from '../../packages/server/dist/storage/open.js';

/** @param {string} url */
export async function openStore(url) {
  const storage = await openStorage(plantStore, url);
  return Object.assign(storage, { plants: new PlantRepository(storage.collection(plants)) });
}
