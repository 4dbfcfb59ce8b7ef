// The PostgreSQL that the test files of a run share, each with databases of its own: a server takes longer to create than
// most of what is tested on it. It starts when a file first asks for it.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { embeddedPostgres, systemPostgres } from '../packages/server/test/support/postgres-cluster.js';

/** Enough for the pools of all files that run at the same time. */
const settings = { max_connections: '400' };

/** Starts the server; it ends with this process. @returns {Promise<string>} Its URL. */
async function startPostgres() {
  const cluster = await (process.env['TEST_POSTGRES'] === 'system' ? systemPostgres() : embeddedPostgres());
  return (await cluster.createServer('data', settings)).url();
}

/**
 * Offers the server to the test files.
 * @returns {Promise<string>} An address of HTTP, whose response is the URL of the server, or with status 500 the reason why
 *   there is none.
 */
export async function offerPostgres() {
  /** @type {Promise<string> | undefined} */
  let url;
  const offer = createServer((_, response) => {
    (url ??= startPostgres()).then(
      (url) => response.end(url),
      (error) => response.writeHead(500).end(String(error)),
    );
  }).listen(0, '127.0.0.1');
  await once(offer, 'listening');
  offer.unref();
  const { port } = /** @type {import('node:net').AddressInfo} */ (offer.address());
  return `http://127.0.0.1:${port}/`;
}
