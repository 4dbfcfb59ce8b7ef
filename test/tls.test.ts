// The suites of connections, HTTP and fuzzing once more, over TLS, whose bytes take another way through Node.
import t from 'tap';
import { skipFor } from './support/skip.js';

process.env['TEST_TRANSPORT'] = 'tls';
// What the fuzzer looks for below TLS, it has looked for without; its handshakes take their time.
process.env['FUZZ_REQUESTS'] ??= '1000';
const { certificateLack } = await import('./support/transport.js');

// Three files in one.
t.setTimeout(600_000);
t.test('a certificate can be made', skipFor(certificateLack), (t) => {
  t.end();
});
if (certificateLack === undefined) {
  for (const suite of ['connection', 'http', 'fuzz']) await import(`./${suite}.test.js`);
}
