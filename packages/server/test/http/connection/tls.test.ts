// Repeats the suites of connections and of fuzzing over TLS, whose data takes another path through Node.js: every
// promise about the order, the end and the limits of a connection holds there, too.
import t from 'tap';
import { skipFor } from '../../support/skip.js';

process.env['TEST_TRANSPORT'] = 'tls';
// The fuzzer has covered what lies below TLS without it; handshakes take time.
process.env['FUZZ_REQUESTS'] ??= '1000';
const { certificateLack } = await import('../../support/transport.js');

if (certificateLack === undefined) {
  for (const suite of ['connection', 'fuzz']) await import(`./${suite}.test.js`);
} else {
  t.test('TLS', skipFor(certificateLack), () => undefined);
}
