// Repeats the suites of connections, clients, framing and fuzzing over TLS, whose data takes another path through Node.js: every
// promise about the order, the end and the limits of a connection holds there, too.
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { connect } from 'node:tls';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { skipFor } from '../../support/skip.js';

process.env['TEST_TRANSPORT'] = 'tls';
// The fuzzer has covered what lies below TLS without it; handshakes take time.
process.env['FUZZ_REQUESTS'] ??= '1000';
process.env['FRAMING_SEQUENCES'] ??= '64';
const { certificateLack } = await import('../../support/transport.js');
const { startListening } = await import('../../support/service.js');
const { listRequest } = await import('../../support/raw-connection.js');
const { repeatUntil } = await import('../../support/wait.js');

/** Clients in a thread of their own, which send each request as soon as they have the response to the one before. */
const fastClients = `
  const { parentPort, workerData: { port, request } } = require('node:worker_threads');
  let served = 0;
  const speak = (socket) => new Promise((resolve) => {
    let left = 20;
    const ask = () => socket.write(request);
    socket.on('error', resolve).on('close', resolve).on('secureConnect', ask).on('data', () => {
      served++;
      if (--left > 0) ask();
      else resolve(socket.destroy());
    });
  });
  const dial = () => require('node:tls').connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  Promise.all(Array.from({ length: 50 }, () => speak(dial()))).then(() => parentPort.postMessage(served));
`;

if (certificateLack === undefined) {
  for (const suite of ['connection', 'clients', 'framing', 'fuzz']) await import(`./${suite}.test.js`);

  // Node.js learns a turn late that a response over TLS is sent.
  t.test('a client that sends its next request at once after a response keeps its connection', async (t) => {
    const { port, authorized } = await startListening(t);
    const workerData = { port, request: listRequest(authorized) };
    t.strictSame(await once(new Worker(fastClients, { eval: true, workerData }), 'message'), [1_000]);
  });

  // Such connections stayed half-open, and held up the shutdown until SHUTDOWN_SECONDS.
  t.test('a client that leaves during the handshake leaves no connection', async (t) => {
    const { app, port } = await startListening(t);
    const distrustful = connect({ host: '127.0.0.1', port, servername: 'localhost' });
    const [error] = (await once(distrustful, 'error')) as [NodeJS.ErrnoException];
    t.equal(error.code, 'DEPTH_ZERO_SELF_SIGNED_CERT');
    const early = connectTcp(port, '127.0.0.1').end('\x16\x03\x01');
    await once(early.resume(), 'close');
    await repeatUntil(() => app.openConnections === 0);
    t.equal(app.openConnections, 0);
  });
} else {
  t.test('TLS', skipFor(certificateLack), () => undefined);
}
