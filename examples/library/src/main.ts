// Entry point of the server. It imports the rest only when it can receive signals.
import '#server/process/signals.js';

const [{ start }, { service }] = await Promise.all([
  import('#server/process/start.js'),
  import('./service.js'),
]);
await start(service, process.env, process.argv.slice(2));
