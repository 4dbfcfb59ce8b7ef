// Writes a migration for what the collections of a service need and no migration creates yet; with --check, only verifies
// that nothing is missing, and that what is kept is what is rendered. Needs "npm run build:all".
import { resolve } from 'node:path';
import { contractServer, services } from '../lib/services.js';

process.chdir(resolve(import.meta.dirname, '../..'));
const options = process.argv.filter((argument) => argument === '--check');
// dist/ has a copy of the Plant Store's migrations.
contractServer('migrations', 'dist/service.js', '--to', 'src/migrations', ...options);
for (const folder of services) contractServer('migrations', `${folder}dist/service.js`, ...options);
