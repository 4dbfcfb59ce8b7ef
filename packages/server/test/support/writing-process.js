// The process that writes for a test's store, from dist: the supervisor's half, without the workers.
import { service } from '../../../../dist/service.js';
import { openStorage } from '../../dist/storage/open.js';

const [url = '', definition] = process.argv.slice(2);
/** @type {import('../../dist/storage/interface.js').StoreDefinition} */
const given = definition === undefined ? service : JSON.parse(definition);
const store = { ...given, migrations: new URL(given.migrations) };
const storage = await openStorage(store, url, {}, {}, { forWorkers: true });
process.on('disconnect', () => void storage.close());
process.on('message', async () => {
  const [collection] = store.collections;
  if (collection === undefined) throw new Error('the store has no collection');
  const text = '{"name":"a"}';
  process.send?.(await storage.collection(collection).write('s', 1n, { when: 'absent', text }));
});
process.send?.(storage.writerAddress);
