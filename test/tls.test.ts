// Repeats the suites of connections, HTTP and fuzzing over TLS, whose data takes another path through Node.js.
import t from 'tap';
import { skipFor } from './support/skip.js';

process.env['TEST_TRANSPORT'] = 'tls';
// The fuzzer has covered what lies below TLS without it; handshakes take time.
process.env['FUZZ_REQUESTS'] ??= '1000';
const { certificateLack } = await import('./support/transport.js');

// Three files in one process.
t.setTimeout(600_000);
t.test('a certificate can be created', skipFor(certificateLack), (t) => {
  t.end();
});
if (certificateLack === undefined) {
  for (const suite of ['connection', 'http', 'fuzz']) await import(`./${suite}.test.js`);
}
