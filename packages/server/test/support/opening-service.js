// The Plant Store as a service that opens, checks and closes something, as a program for tests: it does what the file
// DOES says, and writes what happens to it into the file JOURNAL.
import { appendFileSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { DatabaseSync } from '@photostructure/sqlite';
import { receiveSignals } from '../../dist/process/ending.js';

receiveSignals();

/** What it does, read anew each time: words such as `open-throws` or, for one thread, `check-hangs-2`. */
const does = (/** @type {string} */ what, /** @type {number} */ worker) => {
  const words = readFileSync(process.env['DOES'] ?? '', 'utf8').split(/\s/);
  return words.includes(what) || words.includes(`${what}-${worker}`);
};
const note = (/** @type {string} */ what) => {
  appendFileSync(process.env['JOURNAL'] ?? '', `${what}\n`);
};
/** Fails as it is told, while it serves. @param {number} worker */
function fail(worker) {
  if (does('throws', worker)) throw new Error('a defect');
  if (does('exits', worker)) process.exit(7);
  if (does('exhausts', worker))
    for (const all = []; ;) all.push(Array.from({ length: 1_000_000 }, (_, i) => ({ i })));
  // A statement without an end.
  if (does('holds', worker)) {
    note(`holds ${worker}`);
    new DatabaseSync(':memory:').exec(
      'WITH RECURSIVE counted (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM counted) SELECT count(*) FROM counted',
    );
  }
}
const never = () => new Promise(() => undefined);

const [{ startProcess }, { runServiceCommand }, { service: plantStore }, { plants, PlantRepository }] =
  await Promise.all([
    import('../../dist/process/start.js'),
    import('../../dist/process/commands/commands.js'),
    import('../../../../dist/service.js'),
    import('../../../../dist/plants/repository.js'),
  ]);

/** @type {import('../../dist/service/definition.js').Service} */
const service = {
  ...plantStore,
  program: new URL(import.meta.url),
  command: new URL(import.meta.url),
  open: async (context) => {
    const { collection, log, worker, signal } = context;
    note(`open ${worker}`);
    signal.addEventListener('abort', () => {
      note(`end ${worker}`);
    });
    while (does('open-waits', worker)) await pause(10);
    if (does('open-throws', worker)) throw new Error('no database at db.example:\n  it is down');
    if (does('open-hangs', worker)) await never();
    // Opens all the same when it is asked to give up.
    if (does('open-dawdles', worker)) await new Promise((resolve) => (signal.onabort = resolve));
    if (does('open-gives-up', worker)) await pause(2 ** 30, undefined, { signal });
    // The signal arrives when it is open, but does not serve yet.
    if (does('open-signals', worker)) process.kill(process.pid, 'SIGTERM');
    log.info({ opened: worker }, 'the service is open');
    const { handlers } = await plantStore.open(context);
    const failing = setInterval(() => {
      fail(worker);
    }, 10);
    signal.addEventListener('abort', () => {
      clearInterval(failing);
    });
    return {
      handlers: does('open-forgets', worker) ? {} : handlers,
      check: async () => {
        if (does('check-hangs', worker)) await never();
        if (does('check-fails', worker)) throw new Error('the database is gone');
      },
      close: async () => {
        note(`close ${worker}`);
        if (does('close-hangs', worker)) await never();
        if (does('close-throws', worker)) throw new Error('the pool is stuck');
        const count = await new PlantRepository(collection(plants)).count('alice');
        note(`closed ${worker} with ${count} plants`);
      },
    };
  },
};

const args = process.argv.slice(2);
if (args[0] === 'token') await runServiceCommand(service, process.env, process.argv);
else await startProcess(service, process.env, {});
