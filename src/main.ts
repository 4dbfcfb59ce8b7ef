// Entry point of the server. It imports the rest only when it can receive signals.
import './process/signals.js';

const { start } = await import('./process/start.js');
await start(process.env, process.argv.slice(2));
