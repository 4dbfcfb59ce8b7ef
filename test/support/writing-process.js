// The process that writes for a test's store, from dist: the supervisor's half, without the workers.
import { openStorage } from '../../dist/storage/open.js';

const [url = ''] = process.argv.slice(2);
const storage = await openStorage(url, {}, {}, { forWorkers: true });
process.on('disconnect', () => void storage.close());
process.send?.(storage.writerAddress);
