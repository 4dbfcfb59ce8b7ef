// The process that writes for a test's store, from dist: the supervisor's half, without the workers.
import { openStorage } from '../../dist/storage/open.js';

const [url = ''] = process.argv.slice(2);
const storage = await openStorage(url);
storage.serveWrites?.({
  send: (message, done) => process.send?.(message, undefined, {}, done),
  on: (event, listener) => process.on(event, listener),
});
process.on('disconnect', () => void storage.close());
process.send?.('open');
