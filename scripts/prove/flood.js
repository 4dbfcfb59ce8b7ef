// Checks that a flood of requests without a token fails no request of known callers on open connections, and reports
// their rate without and with it.
import { Command } from 'commander';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { putUnderLoad, requestText } from '../bench/load.js';

const program = new Command('npm run prove:flood --')
  .description('The script needs twice as many file descriptors as connections (ulimit -n).')
  .option('--connections <N>', 'flooding connections; each sends its next request after a response', '3000')
  .parse();
const connections = Number(program.opts()['connections']);
const time = 10_000;

// Without its log, which would slow the flood.
const server = await startServer({ measured: true });
const { port } = server;
const token = await server.createToken('prover');
const list = { method: 'GET', path: '/plants' };
const [known, unknown] = [requestText({ ...list, token }), requestText(list)];

/** Eight known callers; fails unless every response is 200. */
const call = () =>
  putUnderLoad({ port, connections: 8, time, next: () => known, expect: (status) => status === 200 });
const flood = () =>
  putUnderLoad({
    port,
    connections,
    time,
    next: () => unknown,
    expect: (status) => status === 401,
    pause: 0,
  });

const alone = await call();
const [flooded, others] = await Promise.all([call(), flood()]);
await server.end();
const share = ((100 * flooded.rate) / alone.rate).toFixed(1);
console.log(
  `known callers: ${Math.round(alone.rate)} responses/s without the flood, ${Math.round(flooded.rate)} with it: ${share}%`,
);
console.log(`others: ${others.requests} refused requests, other statuses ${JSON.stringify(others.others)}`);
console.log(`yes  every one of ${alone.requests + flooded.requests} responses to known callers was 200`);
