// Finds the other services on this server: each is a folder of examples/ or services/ with a contract.
import { existsSync, readdirSync } from 'node:fs';

const root = new URL('../../', import.meta.url);

/** The folders of the services, relative to the root and with a slash at the end. */
export const services = ['examples/', 'services/']
  .filter((parent) => existsSync(new URL(parent, root)))
  .flatMap((parent) => readdirSync(new URL(parent, root)).map((name) => `${parent}${name}/`))
  .filter((folder) => existsSync(new URL(`${folder}openapi.yaml`, root)));
