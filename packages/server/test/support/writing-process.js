// The process that writes to a test's store, from dist.
import { service } from '../../../../dist/service.js';
import { plants } from '../../../../dist/plants/repository.js';
import { openStorage } from '../../dist/storage/open.js';

const storage = await openStorage(service, process.argv[2] ?? '');
const text = '{"name":"a"}';
process.send?.(await storage.collection(plants).write('s', 1n, { when: 'absent', text }));
