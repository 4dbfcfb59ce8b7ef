// Repeats the suites of connections, clients, framing and fuzzing over TLS, whose data takes another path through Node.js: every
// promise about the order, the end and the limits of a connection holds there, too.
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { connect } from 'node:tls';
import t from 'tap';
import { skipFor } from '../../support/skip.js';

process.env['TEST_TRANSPORT'] = 'tls';
// The fuzzer has covered what lies below TLS without it; handshakes take time.
process.env['FUZZ_REQUESTS'] ??= '1000';
process.env['FRAMING_SEQUENCES'] ??= '64';
const { certificateLack } = await import('../../support/transport.js');
const { startListening } = await import('../../support/service.js');
const { repeatUntil } = await import('../../support/wait.js');

if (certificateLack === undefined) {
  for (const suite of ['connection', 'clients', 'framing', 'fuzz']) await import(`./${suite}.test.js`);

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
